package boundary

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// LostError says that no answer came, or only a part of one.
type LostError struct {
	// Reason names the reason in words of this SDK; "" where none is known.
	Reason string
	// Causes are the network and TLS errors that are safe to show: none of them
	// quotes what a server sent.
	Causes []error
}

func (e *LostError) Error() string   { return "no whole answer: " + e.Reason }
func (e *LostError) Unwrap() []error { return e.Causes }

// NewLostError makes a LostError from what is safe to show of err.
func NewLostError(err error) *LostError {
	if refused, ok := errors.AsType[*ProxyError](err); ok {
		return &LostError{Reason: refused.Error(), Causes: []error{refused}}
	}
	lost := &LostError{}
	for _, known := range lostReasons {
		if cause := known.find(err); cause != nil {
			lost.Causes = append(lost.Causes, cause)
			if lost.Reason == "" {
				lost.Reason = known.reason
			}
		}
	}
	return lost
}

// lostReasons has the more specific reasons first: the first that matches counts.
var lostReasons = []struct {
	find   func(error) error
	reason string
}{
	{is(errSentBefore), "the request was refused, or its connection was lost, before an answer came"},
	{dnsError, "the host name could not be resolved"},
	{is(syscall.ECONNREFUSED), "the connection was refused"},
	{is(syscall.ECONNRESET), "the connection was reset"},
	{is(syscall.EPIPE), "the connection was closed"},
	{is(syscall.EHOSTUNREACH), "the host cannot be reached"},
	{is(syscall.ENETUNREACH), "the network cannot be reached"},
	{is(syscall.EMFILE), "this process has no file descriptor left"},
	{is(syscall.ENFILE), "this system has no file descriptor left"},
	{as[x509.UnknownAuthorityError], "the TLS certificate is not trusted"},
	{as[x509.HostnameError], "the TLS certificate is for another host"},
	{as[x509.CertificateInvalidError], "the TLS certificate is not valid"},
	{as[*tls.CertificateVerificationError], "the TLS certificate was not verified"},
	{as[tls.AlertError], "the TLS handshake failed"},
	{is(io.ErrUnexpectedEOF), "the connection was closed in the middle of the answer"},
	{is(io.EOF), "the connection was closed"},
	{is(net.ErrClosed), "the connection was closed"},
	{timeout, "connecting took too long"},
}

func as[T error](err error) error {
	if found, ok := errors.AsType[T](err); ok {
		return found
	}
	return nil
}

func is(target error) func(error) error {
	return func(err error) error {
		if errors.Is(err, target) {
			return target
		}
		return nil
	}
}

// dnsError gives the resolver's error without what it wraps. That may be an error
// of a context, and would tell the caller that its own context ended, which is
// not so.
func dnsError(err error) error {
	found, ok := errors.AsType[*net.DNSError](err)
	if !ok {
		return nil
	}
	shown := *found
	shown.UnwrapErr = nil
	return &shown
}

// timeout gives one error for every time limit of the network layer. The original
// may match context.DeadlineExceeded, which would tell the caller that its own
// deadline passed.
func timeout(err error) error {
	if found, ok := errors.AsType[net.Error](err); ok && found.Timeout() {
		return os.ErrDeadlineExceeded
	}
	return nil
}
