package inspection

import (
	"context"

	"golang.org/x/oauth2"
)

// Guard authorizes the requests of one inspection. It belongs to that inspection
// alone, which calls it in one goroutine. It returns soon after its context has
// ended. Its errors are *feedback.Error and are passed on.
type Guard interface {
	// Token gives the access token of the next request. It is called immediately
	// before each request, repeats included.
	Token(ctx context.Context) (*oauth2.Token, error)
	// Refresh replaces a token that the server refused, for the repeat of the
	// request. It reports false where it cannot, or where this inspection has had
	// all that it may have: then the refusal stands.
	Refresh(ctx context.Context, refused *oauth2.Token) (again bool, err error)
	// WaitsFor names what a call waits for, or waited for when its context ended,
	// as the message of a time-out continues after "waiting for".
	WaitsFor() string
}
