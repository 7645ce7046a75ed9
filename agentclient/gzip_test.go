package agentclient_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
)

func packed(text string) []byte {
	var b bytes.Buffer
	packer := gzip.NewWriter(&b)
	_, _ = io.WriteString(packer, text)
	_ = packer.Close()
	return b.Bytes()
}

// What is wrong with a packed body inside a whole answer stays wrong: it is no
// lost connection, and not asked for again. One that breaks off is lost.
func TestPackedBodies(t *testing.T) {
	t.Parallel()
	good := packed(receiptBody)
	half := len(receiptBody) / 2
	wrong := slices.Clone(good)
	wrong[len(wrong)-8]++                     // in the checksum
	empty := bytes.Repeat(packed(""), 60_000) // more than the limit of what it unpacks to
	for name, test := range map[string]struct {
		body     []byte
		encoding string // gzip where it is empty
		broken   bool   // the answer breaks off after the body
		code     feedback.Code
		times    int64
	}{
		"whole":                     {body: good, times: 1},
		"in two members":            {body: slices.Concat(packed(receiptBody[:half]), packed(receiptBody[half:])), times: 1},
		"with an empty last member": {body: slices.Concat(good, packed("")), times: 1},
		"in capitals":               {body: good, encoding: "GZIP", times: 1},
		"as it is":                  {body: []byte(receiptBody), encoding: "identity", times: 1},
		"of nothing":                {body: []byte{}, code: feedback.CodeAgentInvalidResponse, times: 1},
		"short of its header":       {body: good[:5], code: feedback.CodeAgentInvalidResponse, times: 1},
		"short of its text":         {body: good[:len(good)/2], code: feedback.CodeAgentInvalidResponse, times: 1},
		"short of its end":          {body: good[:len(good)-8], code: feedback.CodeAgentInvalidResponse, times: 1},
		"short of a byte":           {body: good[:len(good)-1], code: feedback.CodeAgentInvalidResponse, times: 1},
		"with a byte after its end": {body: append(slices.Clone(good), 0), code: feedback.CodeAgentInvalidResponse, times: 1},
		"with a text after its end": {body: append(slices.Clone(good), receiptBody...), code: feedback.CodeAgentInvalidResponse, times: 1},
		"and half of another one":   {body: slices.Concat(good, good[:20]), code: feedback.CodeAgentInvalidResponse, times: 1},
		"with a wrong checksum":     {body: wrong, code: feedback.CodeAgentInvalidResponse, times: 1},
		"not packed at all":         {body: []byte(receiptBody), code: feedback.CodeAgentInvalidResponse, times: 1},
		"of members without end":    {body: empty, code: feedback.CodeAgentInvalidResponse, times: 1},
		"packed twice":              {body: packed(string(good)), encoding: "gzip, gzip", code: feedback.CodeAgentInvalidResponse, times: 1},
		"broken off":                {body: good[:len(good)-1], broken: true, code: feedback.CodeAgentTransportUnavailable, times: 2},
		"broken off at its end":     {body: good, broken: true, code: feedback.CodeAgentTransportUnavailable, times: 2},
	} {
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				var times atomic.Int64
				hub := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if got := r.Header.Values("Accept-Encoding"); !slices.Equal(got, []string{"gzip"}) {
						t.Errorf("asked for %q", got)
					}
					if r.URL.Path == capabilitiesPath {
						_, _ = io.WriteString(rw, capabilitiesBody)
						return
					}
					times.Add(1)
					encoding := test.encoding
					if encoding == "" {
						encoding = "gzip"
					}
					rw.Header().Set("Content-Encoding", encoding)
					if test.broken {
						rw.Header().Set("Content-Length", fmt.Sprint(len(test.body)+1))
					}
					_, _ = rw.Write(test.body)
				}))
				hub.EnableHTTP2 = protocol == "HTTP/2"
				hub.StartTLS()
				t.Cleanup(hub.Close)
				client, err := agentclient.New(agentclient.Config{HubURL: hub.URL, Workspace: workspace, TokenSource: static(canary)},
					agentclient.WithHTTPClient(hub.Client()), agentclient.WithMaxRetries(1))
				if err != nil {
					t.Fatal(err)
				}
				_, err = client.InspectInvocation(t.Context(), invocationID)
				if test.code == "" && err != nil || test.code != "" && failureOf(t, err).Feedback.Code != test.code {
					t.Errorf("%v, want %q", err, test.code)
				}
				if times.Load() != test.times {
					t.Errorf("asked %d times, want %d", times.Load(), test.times)
				}
			})
		}
	}
}

// The same for the body of a failure: it has no code then, and no more.
func TestPackedFailures(t *testing.T) {
	t.Parallel()
	for code, body := range map[feedback.Code][]byte{
		feedback.CodeInvocationNotFound: packed(`{"error":"invocation_not_found"}`),
		feedback.CodeUnknownFailure:     append(packed(`{"error":"invocation_not_found"}`), "more"...),
	} {
		w := &wire{answer: then(status(404, string(body), "Content-Encoding", "gzip"))}
		_, err := newClient(t, w).InspectInvocation(t.Context(), invocationID)
		if failureOf(t, err).Feedback.Code != code || len(w.sent()) != 2 {
			t.Errorf("%v, want %s; %s", err, code, strings.Join(w.sent(), " "))
		}
	}
}
