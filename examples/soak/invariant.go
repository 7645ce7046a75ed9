package main

import (
	"fmt"
	"time"
)

// An invariant is what must hold all the time.
type invariant string

const (
	receiptIsTrue     invariant = "a receipt is what the Hub had at some moment of the call"
	bindingIsKept     invariant = "no answer of one binding reaches another"
	nothingIsDone     invariant = "no business request leaves"
	tokenStaysHome    invariant = "a token goes only with an original of its session"
	requestIsChecked  invariant = "the binding is checked right before every request"
	errorIsKnown      invariant = "an error is of the vocabulary, has a reason, and shows no token"
	refreshIsOnce     invariant = "a refresh token is not used twice"
	sessionIsKept     invariant = "a store that fails and comes back loses no session"
	answerIsOnce      invariant = "each entry is answered once, and a watch yields news only"
	nothingIsLeft     invariant = "goroutines and descriptors end where they began"
	memoryIsBounded   invariant = "memory stays bounded"
	programIsSensible invariant = "this program itself does what it means to do"
)

// breach is an invariant that did not hold, with an account of how.
type breach struct {
	invariant invariant
	account   string
}

func (b *breach) Error() string { return string(b.invariant) + ": " + b.account }

// breaks reports a breach. The first one ends the run.
func (s *soak) breaks(i invariant, format string, args ...any) {
	at := s.clock.now().Sub(s.clock.start.Round(0)).Round(time.Millisecond)
	b := &breach{i, fmt.Sprintf("seed %d, %v into the run: ", s.config.seed, at) + fmt.Sprintf(format, args...)}
	s.breach.CompareAndSwap(nil, b)
	s.end(b)
}
