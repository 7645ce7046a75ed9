package boundary

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
)

// secureProxy uses proxy for https only: a proxy could read the credential of a
// plain http request.
func secureProxy(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if r.URL.Scheme != "https" {
			return nil, nil
		}
		return proxy(r)
	}
}

// ProxyError says that a proxy refused to connect to the server. Of the proxy's
// answer it has only the status.
type ProxyError struct {
	Proxy  string // host and port, as the proxy's URL has them
	Status int
}

func (e *ProxyError) Error() string {
	text := "the proxy at " + e.Proxy + " refused to connect, with status " + strconv.Itoa(e.Status)
	if e.Status == http.StatusProxyAuthRequired {
		text += ", and wants a user name and a password, which belong in the URL of the proxy"
	}
	return text
}

// WillRefuseAgain reports whether err comes from a proxy that will refuse the same
// request again, because it demands a login, for example.
func WillRefuseAgain(err error) bool {
	refused, ok := errors.AsType[*ProxyError](err)
	return ok && (refused.Status == http.StatusProxyAuthRequired || refused.Status == http.StatusForbidden)
}

// checkProxy gives the function that net/http calls with a proxy's answer to
// CONNECT. It calls the function that the program has set for that, if any, and
// then makes a refusal a [ProxyError].
func checkProxy(set func(context.Context, *url.URL, *http.Request, *http.Response) error) func(context.Context, *url.URL, *http.Request, *http.Response) error {
	return func(ctx context.Context, proxy *url.URL, request *http.Request, answer *http.Response) error {
		if set != nil {
			if err := set(ctx, proxy, request, answer); err != nil {
				return err
			}
		}
		if answer.StatusCode != http.StatusOK {
			return &ProxyError{Proxy: proxy.Host, Status: answer.StatusCode}
		}
		return nil
	}
}
