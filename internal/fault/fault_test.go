package fault_test

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/fault"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	kind, reason := errors.New("kind"), errors.New("reason")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	expired, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	<-expired.Done()
	for _, test := range []struct {
		err     error
		text    string
		matches []error
	}{
		{fault.New("it is wrong", kind), "it is wrong", []error{kind}},
		{fault.System("opening /a", &fs.PathError{Op: "open", Path: "/secret", Err: syscall.ENOSPC}, kind), "opening /a: " + syscall.ENOSPC.Error(), []error{kind, syscall.ENOSPC}},
		{fault.System("opening /a", errors.New("secret")), "opening /a: the system refused", nil},
		{fault.Ended(ended, "waiting", kind), "waiting: cancelled by the caller", []error{kind, context.Canceled, reason}},
		{fault.Ended(expired, "waiting"), "waiting: the caller's deadline passed", []error{context.DeadlineExceeded}},
	} {
		if test.err.Error() != test.text {
			t.Errorf("error %q, want %q", test.err, test.text)
		}
		for _, want := range test.matches {
			if !errors.Is(test.err, want) {
				t.Errorf("error %q does not match %q", test.err, want)
			}
		}
	}
	if err := fault.Ended(t.Context(), "waiting"); err != nil {
		t.Errorf("a context that goes on: %v", err)
	}
}
