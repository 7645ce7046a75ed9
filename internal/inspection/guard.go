package inspection

import (
	"context"

	"golang.org/x/oauth2"
)

// Guard authorizes the requests of one inspection. Only that inspection calls it, from
// one goroutine. Its methods return soon after their context has ended. Their errors
// are *feedback.Error, and the inspection returns them.
type Guard interface {
	// Token gives the access token of the next request. It is called immediately
	// before each request, repeats included.
	Token(ctx context.Context) (*oauth2.Token, error)
	// Refresh replaces a token that the server refused. again reports whether the
	// request is to be repeated with the new token. It is false where the guard has
	// no new one, or has replaced a token as often as one inspection may: the
	// server's refusal is then the answer.
	Refresh(ctx context.Context, refused *oauth2.Token) (again bool, err error)
	// WaitsFor names what a call of the guard waits for, or waited for when its
	// context ended. The message of a timeout says that the inspection waited for
	// this.
	WaitsFor() string
}
