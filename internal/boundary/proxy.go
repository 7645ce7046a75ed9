package boundary

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
)

// secureProxy is proxy for https only: a proxy sees the credential of a plain
// http request.
func secureProxy(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if r.URL.Scheme != "https" {
			return nil, nil
		}
		return proxy(r)
	}
}

// ProxyError says that a proxy answered, and did not connect to the server. It
// has nothing of what the proxy said but the status.
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

// WillRefuseAgain reports that err comes from a proxy that wants something else
// of this host: to ask once more changes nothing.
func WillRefuseAgain(err error) bool {
	refused, ok := errors.AsType[*ProxyError](err)
	return ok && (refused.Status == http.StatusProxyAuthRequired || refused.Status == http.StatusForbidden)
}

// checkProxy is what net/http asks about the answer of a proxy to CONNECT: first
// what the program itself has set for that, if anything, and then this package.
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
