package host_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
)

// A proxy that wants something else of this host is asked once, alone and in a
// batch, and named.
func TestARefusingProxyIsAskedOnce(t *testing.T) {
	t.Parallel()
	for status, asked := range map[int]int{407: 1, 403: 1, 503: 3} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.wire.base = roundTripFunc(func(*http.Request) (*http.Response, error) {
				return nil, &boundary.ProxyError{Proxy: "proxy.example.com:3128", Status: status}
			})
			check := func(err error) {
				t.Helper()
				if failure := w.failure(err, feedback.CodeAgentTransportUnavailable); !strings.Contains(failure.Message, "proxy.example.com:3128") {
					t.Errorf("%d: %s", status, failure.Message)
				}
			}
			check(w.refused(feedback.CodeAgentTransportUnavailable))
			if n := len(w.wire.requests()); n != asked {
				t.Errorf("%d: asked %d times", status, n)
			}
			for _, o := range slices.Collect(w.transport.InspectInvocations(t.Context(), w.operations(1))) {
				check(o.Err)
			}
			if n := len(w.wire.requests()) - asked; n != asked {
				t.Errorf("%d: asked %d times in a batch", status, n)
			}
		})
	}
}

// So is one that the renewal of a session meets.
func TestARefusingProxyIsNamedByARefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.wire.base = roundTripFunc(func(*http.Request) (*http.Response, error) {
			return nil, &boundary.ProxyError{Proxy: "proxy.example.com:3128", Status: http.StatusProxyAuthRequired}
		})
		w.session.AccessExpiresAt = time.Now().Add(time.Second)
		w.login(w.session)
		failure := w.refused(feedback.CodeAgentTransportUnavailable)
		if !strings.Contains(failure.Message, "because no whole answer came from the Hub: the proxy at proxy.example.com:3128 refused to connect, with status 407") {
			t.Error(failure.Message)
		}
		if got := w.wire.requests(); !slices.Equal(got, []string{"refresh"}) {
			t.Errorf("sent %q", got)
		}
	})
}
