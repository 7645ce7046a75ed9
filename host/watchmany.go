package host

import (
	"context"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/failures"
)

// WithOpen makes [Transport.WatchInvocations] call open for the list of originals, at the
// beginning and then after each longest interval. It watches a new original from then on,
// and stops watching one that is no longer in the list. The sequence ends when the list is
// empty, or when open yields an error, which comes in an observation without an original.
//
// The watch of an original ends only then, or when the operation is settled. A failure is
// yielded once, and the original is inspected again. After a failure that is not a transport
// failure, the next inspection is after the longest interval, which doubles with each such
// failure up to 5 minutes: the Hub may not know the operation yet. WithPatience has no
// effect, and the end of the context is not yielded as an error.
func WithOpen(open func(context.Context) iter.Seq2[Original, error]) WatchOption {
	return watchOption(func(w *watch) error {
		if open == nil {
			return invalid("WithOpen: the function is nil.")
		}
		w.open = open
		return nil
	})
}

// WatchInvocations watches many originals at once, each as [Transport.WatchInvocation] does,
// at the cost of a batch. It yields every new observation of any of them. The last
// observation of an original is settled or an error; after it the original is not inspected
// any more. The sequence ends when it has yielded the last observation of each.
//
// Each original has its own intervals. Originals that are due at about the same time are
// inspected in one round, which is a batch of [Transport.InspectInvocations]: it negotiates
// once for each binding, makes as many inspections at once as [WithConcurrency] says, and
// waits as a whole when a Hub answers 429 or 503.
//
// When the loop over the sequence ends early, the watch first stops all its work, as a batch
// does. When ctx ends, every original that is still watched is yielded with an error that
// says so. A second loop over the sequence begins a new watch.
func (t *Transport) WatchInvocations(ctx context.Context, originals []Original, opts ...WatchOption) iter.Seq[Observation] {
	return func(yield func(Observation) bool) {
		w, err := newWatch(opts)
		if err == nil && ctx == nil {
			err = invalid("The context is nil.")
		}
		if err != nil {
			if len(originals) == 0 {
				originals = []Original{{}}
			}
			for _, original := range originals {
				if !yield(Observation{Original: original, Err: err}) {
					return
				}
			}
			return
		}
		m := watchMany{watch: w, transport: t, yield: yield}
		for _, original := range originals {
			m.add(original)
		}
		m.run(ctx)
	}
}

// watchMany is the state of one loop over WatchInvocations. It runs in the goroutine of the
// caller.
type watchMany struct {
	watch
	transport *Transport
	yield     func(Observation) bool
	entries   []*watched
	listed    time.Time // when open was last called
}

func (m *watchMany) add(original Original) {
	m.entries = append(m.entries, &watched{original: original, interval: m.first})
}

func (m *watchMany) run(ctx context.Context) {
	for ctx.Err() == nil {
		if m.open != nil && (m.listed.IsZero() || time.Since(m.listed) >= m.longest) {
			if !m.list(ctx) {
				return
			}
			m.listed = time.Now()
		}
		if len(m.entries) == 0 {
			return
		}
		round, wait := m.due(time.Now())
		if len(round) == 0 {
			sleep(ctx, wait)
			continue
		}
		if !m.inspectRound(ctx, round) {
			return
		}
	}
	m.abandon(ctx)
}

// list calls open and updates the originals that are watched.
func (m *watchMany) list(ctx context.Context) (goOn bool) {
	known := make(map[Original]*watched, len(m.entries))
	for _, e := range m.entries {
		known[e.original] = e
	}
	m.entries = nil
	for original, err := range m.open(ctx) {
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			failure := storeFailure(err)
			failure.Message = "It could not be read what is still open, so nothing is watched any more. That says nothing about any operation."
			m.yield(Observation{Err: failures.New(failure)})
			return false
		case known[original] != nil:
			m.entries = append(m.entries, known[original])
		default:
			m.add(original)
		}
	}
	return true
}

// due gives the originals of a round. Before the first original is due it gives none, and
// wait is the time until then. When one is due, the round also has those that are due soon.
func (m *watchMany) due(now time.Time) (round []*watched, wait time.Duration) {
	var first time.Time
	for i, e := range m.entries {
		if i == 0 || e.due.Before(first) {
			first = e.due
		}
	}
	if first.After(now) {
		wait = first.Sub(now)
		if m.open != nil {
			wait = min(wait, m.listed.Add(m.longest).Sub(now))
		}
		return nil, wait
	}
	for _, e := range m.entries {
		if !e.due.Add(-e.slack).After(now) {
			round = append(round, e)
		}
	}
	return round, 0
}

// inspectRound inspects the originals of a round and yields what is new.
func (m *watchMany) inspectRound(ctx context.Context, round []*watched) (goOn bool) {
	originals := make([]Original, 0, len(round))
	asked := make(map[Original][]*watched, len(round))
	for _, e := range round {
		originals = append(originals, e.original)
		asked[e.original] = append(asked[e.original], e)
	}
	// All originals of a round get the same jitter, so that they stay in one round.
	scale := 0.5 + rand.Float64()
	jitter := func(d time.Duration) time.Duration { return time.Duration(scale * float64(d)) }
	for o := range m.transport.InspectInvocations(ctx, originals, WithConcurrency(m.concurrency)) {
		same := asked[o.Original]
		e := same[0]
		asked[o.Original] = same[1:]
		v := m.judge(ctx, e, o.Receipt, o.Err, jitter)
		e.due, e.slack, e.over = time.Now().Add(v.pause), 0, v.over
		if !v.exact {
			e.slack = min(v.pause/4, v.pause-m.first)
		}
		if m.open != nil && ctx.Err() != nil && o.Err != nil {
			continue
		}
		if v.err != nil {
			o.Receipt, o.Err = nil, v.err
		}
		if (v.news || v.err != nil) && !m.yield(o) {
			return false
		}
	}
	m.entries = slices.DeleteFunc(m.entries, func(e *watched) bool { return e.over })
	return true
}

// abandon yields an error for every original that is still watched, after the context has
// ended.
func (m *watchMany) abandon(ctx context.Context) {
	if m.open != nil {
		return
	}
	for _, e := range m.entries {
		if !m.yield(Observation{Original: e.original, Err: e.endedWith(ctx)}) {
			return
		}
	}
}
