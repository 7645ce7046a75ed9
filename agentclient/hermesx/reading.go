package hermesx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/internal/failures"
)

// A reading is one reading of a whole list, and this is the rule that it goes
// by.
//
// The server sorts by time, the newest first, and gives a page as a number of
// rows behind an offset. Rows of the same time change places from one page to
// the next, rows come in and are removed meanwhile, and the server counts before
// it selects: neither an offset nor a count says which rows a page brings. Its
// times do. A page is one look at an unbroken stretch of the list, so every row
// whose time lies between those of its first and its last row, without these two
// times themselves, is on it. From that follows:
//
//   - A page that begins with a row newer than the last one that was given has
//     all rows of the last one's time, and joins on to what was read: from there
//     down to the time of its own last row nothing is missing. The first page of
//     the list joins always.
//   - So each page is asked for from one row before those of the last one's time.
//     Rows that came in at the front meanwhile only make the pages overlap by
//     more. A page that does not join, because rows were removed or moved, is
//     not used: the place is looked for again.
//   - A page that has fewer rows than were asked for, and reaches as far as the
//     server counts, is the last one.
//
// What was given is thus always everything down to the last row's time, which is
// all that a [feedback.Error.Cursor] has to hold. Nothing is asked for twice on
// suspicion, and no count is believed against the rows: one that is too small
// ends nothing, and one that stays too large ends with [ErrIncomplete].
//
// Two lists are beyond the rule, and are told apart by it. Where more rows have
// one time than the largest page holds, no page shows all of them: they are
// read over and over until there are as many different ones as lie between the
// first and the last of them in the list (see run). Where the server cannot give
// a row, the reading steps over it and ends with [ErrIncomplete] (see stepOver).
type reading[T listed] struct {
	list[T]
	position
	ctx    context.Context
	client *Client
	yield  func(T, error) bool
	waits  waits

	asked   place
	largest int  // page, after one that was too long
	joined  bool // the next page joins, whatever it begins with
	whole   bool // all rows of the last one's time were given
	search  search

	rows      int    // that were given
	counted   int    // in the last answer
	bound     int    // how many rows are believed to be a list at all
	idle      int    // pages in a row that brought nothing
	short     int    // of them, those that ended before the count
	left      int    // rows that were stepped over
	requestID string // of the last answer
}

// listed is a row of a list.
type listed interface {
	key() string
	at() time.Time
}

// list is what a reading has to know of one of the lists.
type list[T listed] struct {
	// limit is the size of the first page, most that of the largest.
	limit, most int
	// grows: pages grow while they are small in bytes.
	grows bool
	// bounded: the server can be asked for rows before a time.
	bounded bool
	// logged: the list has the requests of the reading itself.
	logged bool
	// fetch gives a page; once, where the client repeats nothing by itself.
	fetch func(ctx context.Context, asked place, once bool) (page[T], error)
}

// place is where a page is asked for: limit rows behind offset, of those before
// a time where one is set.
type place struct {
	before        time.Time
	offset, limit int
}

// page is an answer, as a reading has to know it.
type page[T listed] struct {
	rows  []T
	total int
	reply reply
}

const (
	// longestList is how many rows a list can have. A server that counts more
	// is not believed, so that a reading ends; its cursor goes on.
	longestList = 10_000_000
	// beyondCount is how many rows more than the server counted at the beginning
	// are taken for rows that came in meanwhile.
	beyondCount = 10_000
	// smallPage is how many bytes a page may have to be followed by one of twice
	// as many rows.
	smallPage = 2 << 20
	// mostIdle is how many pages in a row may bring nothing while the place is
	// looked for, mostShort how many may end before the count.
	mostIdle, mostShort = 48, 3
	// mostSweeps is how often in a row a run of equal times is read without a
	// new row. Where rows take their places at random, the chance to miss one in
	// one sweep is less than 1/e, so in all of them less than one in 100,000.
	mostSweeps = 12
	// fewRows are so few that one of them may be too long by itself.
	fewRows = 8
	// mostLeft is how many rows are stepped over at most.
	mostLeft = 20
)

// errStopped says that whoever ranges over the list has stopped.
var errStopped = errors.New("stopped")

// readAll gives the rows of a list, and an error at the end where it is not
// whole.
func readAll[T listed](ctx context.Context, client *Client, l list[T], start position, opts []ListOption) iter.Seq2[T, error] {
	settings, err := apply(opts)
	if err != nil {
		return failed[T](err)
	}
	return func(yield func(T, error) bool) {
		r := &reading[T]{list: l, position: start, ctx: ctx, client: client, yield: yield, waits: waits{ctx: ctx, settings: settings}}
		r.waits.report = r.report
		r.given = map[digest]bool{}
		for row := range start.given {
			r.given[row] = true
		}
		r.asked, r.largest = place{limit: l.limit}, l.most
		if !r.at.IsZero() {
			r.goOn(r.offset)
		}
		err := r.read()
		if err == nil && l.logged {
			err = r.findItself()
		}
		if err != nil && err != errStopped {
			var none T
			yield(none, err)
		}
	}
}

// read reads to the end of the list; nil says that all of it was given.
func (r *reading[T]) read() error {
	for {
		page, err := r.get(r.asked)
		switch {
		case errors.Is(err, errTooLong) && r.asked.limit > fewRows:
			r.largest = r.asked.limit / 2
			r.asked.limit = r.largest
		case r.isRefusal(err):
			err = r.stepOver(err)
			if err != nil {
				return err
			}
		case err != nil:
			return r.fail(err)
		default:
			taken, err := r.take(page)
			if err != nil {
				return err
			}
			if r.isLast(page, taken) {
				if r.left > 0 {
					return r.incomplete(fmt.Sprintf("the HermesX server could not give %d or more of its rows, which were left out", r.left), true)
				}
				return nil
			}
			if err := r.goOnAfter(page, taken); err != nil {
				return err
			}
		}
	}
}

// taken is what became of a page: whether it joined on to what was given, and how
// many of its rows were new.
type taken struct {
	joined bool
	fresh  int
}

// take gives the rows of a page that joins, as far as they were not given.
func (r *reading[T]) take(page page[T]) (taken, error) {
	if !inOrder(page.rows) {
		return taken{}, r.incomplete(outOfOrder, false)
	}
	if r.bound == 0 {
		r.bound = min(page.total, longestList) + beyondCount
	}
	if !r.joins(page.rows) {
		return taken{}, nil
	}
	got := taken{joined: true}
	for _, row := range page.rows {
		fresh, err := r.give(row)
		if err != nil {
			return taken{}, err
		}
		if fresh {
			got.fresh++
		}
	}
	r.report(0, false)
	return got, nil
}

const outOfOrder = "a page of the HermesX server is not in the order of its times, or has a row twice"

// joins reports whether nothing is missing between what was given and rows.
func (r *reading[T]) joins(rows []T) bool {
	switch {
	case r.joined || r.asked.offset == 0 || r.at.IsZero():
		return true
	case len(rows) == 0:
		return false
	}
	first := rows[0].at()
	return first.After(r.at) || r.whole && first.Equal(r.at)
}

// give gives a row, unless it was given.
func (r *reading[T]) give(row T) (fresh bool, err error) {
	switch at := row.at(); {
	case r.at.IsZero() || at.Before(r.at):
		r.at, r.whole = at, false
		clear(r.given)
	case at.After(r.at):
		return false, nil // it was given, or has come in since
	}
	id := digestOf(row.key())
	if r.given[id] {
		return false, nil
	}
	if r.rows == r.bound {
		return false, r.incomplete("the HermesX server gives many more rows than it counts, and was not asked for more", false)
	}
	r.given[id] = true
	r.rows++
	if !r.yield(row, nil) {
		return true, errStopped
	}
	return true, nil
}

// inOrder reports whether rows are sorted by time, the newest first, and none is
// among them twice.
func inOrder[T listed](rows []T) bool {
	seen := make(map[string]bool, len(rows))
	for i, row := range rows {
		if seen[row.key()] || i > 0 && row.at().After(rows[i-1].at()) {
			return false
		}
		seen[row.key()] = true
	}
	return true
}

// isLast reports whether the list ends on a page. One that has more rows than the
// server counts, as when a row comes in between its count and its select, is
// the last one when there is nothing new on it.
func (r *reading[T]) isLast(page page[T], got taken) bool {
	reach := r.asked.offset + len(page.rows)
	return got.joined && len(page.rows) < r.asked.limit && (reach == page.total || reach > page.total && got.fresh == 0)
}

// goOnAfter finds the place of the page after one.
func (r *reading[T]) goOnAfter(page page[T], got taken) error {
	reach := r.asked.offset + len(page.rows)
	full := len(page.rows) >= r.asked.limit
	r.joined = false
	switch {
	case got.fresh > 0:
		r.idle, r.short = 0, 0
	case got.joined && !full && reach < page.total:
		r.short++
		fallthrough
	default:
		r.idle++
	}
	switch {
	case r.short == mostShort:
		return r.incomplete("the HermesX server counts more rows than it gives", false)
	case r.idle == mostIdle:
		return r.incomplete("rows came in or were removed faster than the list could be read", false)
	case !got.joined:
		r.asked.offset = r.search.back(r.asked.offset, r.asked.limit)
		return nil
	case len(page.rows) == 0:
		return nil
	}
	last := page.rows[len(page.rows)-1].at()
	if last.After(r.at) { // all of it was known: rows have come in ahead
		r.asked.offset = r.search.on(reach-1, r.asked.limit)
		r.grow()
		return nil
	}
	r.search = search{}
	ahead := 0 // how many rows are newer than the last
	for page.rows[ahead].at().After(last) {
		ahead++
	}
	asked := r.asked
	overlap := len(page.rows) - ahead
	if full && (2*overlap >= len(page.rows) || 2*got.fresh <= len(page.rows) || r.grows && len(page.reply.Body) <= smallPage) {
		r.grow()
	}
	r.goOn(r.asked.offset + ahead)
	if r.asked == asked && (got.fresh > 0 || full || overlap > 1) {
		return r.run()
	}
	return nil
}

// goOn has the next page asked for from one row before the last one's time,
// whose rows begin at first in the list.
func (r *reading[T]) goOn(first int) {
	r.offset = first
	if r.bounded {
		r.asked.before, r.asked.offset, r.offset = justAfter(r.at), 0, 0
		return
	}
	r.asked.offset = max(first-1, 0)
}

func (r *reading[T]) grow() { r.asked.limit = min(2*r.asked.limit, r.largest) }

// justAfter gives the time that lies next after one: servers keep microseconds.
func justAfter(t time.Time) time.Time {
	return t.Truncate(time.Microsecond).Add(time.Microsecond)
}

// search looks for a place in a list whose rows have moved on or up.
type search struct {
	// low is an offset whose row is too new, high one that is too far; 0 for none.
	low, high int
	stride    int
}

// on gives the next offset behind low, whose row is still too new.
func (s *search) on(low, limit int) int {
	s.low = low
	if s.high <= low {
		s.high = 0
		s.stride = max(2*s.stride, limit)
		return low + s.stride - limit
	}
	if s.high-low <= limit {
		return low
	}
	return low + (s.high-low)/2
}

// back gives the next offset before high, which is too far.
func (s *search) back(high, limit int) int {
	s.high = high
	if s.low >= high {
		s.low = 0
	}
	if s.low > 0 {
		if high-s.low <= limit {
			return s.low
		}
		return s.low + (high-s.low)/2
	}
	s.stride = max(2*s.stride, limit)
	return max(0, high-s.stride)
}

// run reads a run of equal times that the largest page cannot show whole: page
// by page from its first row to its last, again and again, each time with other
// borders, until as many different rows were seen as lie between the two.
func (r *reading[T]) run() error {
	if r.bounded {
		r.asked.before, r.asked.offset = justAfter(r.at), 0
	}
	from, size := r.asked.offset, r.asked.limit
	seen := run{rows: map[digest]bool{}}
	for sweep, barren := 0, 0; barren < mostSweeps; sweep++ {
		given := len(r.given)
		if err := r.sweep(&seen, from, max(1, size-sweep*7%(size/2+1))); err != nil {
			return err
		}
		if seen.isWhole() {
			r.whole, r.asked.limit = true, size
			r.offset = seen.end
			if r.bounded {
				r.asked.before, r.asked.offset = r.at, 0
			} else {
				r.asked.offset = max(seen.end-1, 0)
			}
			return nil
		}
		if seen.first >= 0 {
			from = max(0, seen.first-1)
		} else {
			from = max(0, from-size) // rows ahead of it went away
		}
		if barren++; len(r.given) > given {
			barren = 0
		}
	}
	return r.incomplete("more rows have the same time than one page can hold, and not all of them were seen", false)
}

// run is what was seen of a run of equal times since the list last changed.
type run struct {
	// rows are the rows of it.
	rows map[digest]bool
	// total is what the server counted last, and length how long the run was.
	total, length int
	// first is where its first row stood in the last sweep, -1 where that did not
	// begin ahead of it; end is where its last row ended.
	first, end int
}

// note takes a measure of the run. Where it is another one than before, what was
// seen is forgotten: rows that went away since would be counted in place of
// others that are missing.
func (s *run) note(measure *int, value int) {
	if *measure != value && *measure != 0 {
		clear(s.rows)
	}
	*measure = value
}

func (s *run) isWhole() bool { return s.first >= 0 && len(s.rows) >= s.end-s.first }

// sweep reads the run of the last one's time once, from an offset before it.
func (r *reading[T]) sweep(seen *run, from, size int) error {
	seen.first, seen.end = -1, -1
	ahead := from == 0
	for offset := from; seen.end < 0; {
		page, err := r.get(place{r.asked.before, offset, size})
		if err != nil {
			return r.fail(err)
		}
		if !inOrder(page.rows) {
			return r.incomplete(outOfOrder, false)
		}
		seen.note(&seen.total, page.total)
		for i, row := range page.rows {
			at := row.at()
			if at.After(r.at) {
				ahead = true
				continue
			}
			if at.Before(r.at) {
				seen.end = offset + i
				break
			}
			if seen.first < 0 && ahead {
				seen.first = offset + i
			}
			if _, err := r.give(row); err != nil {
				return err
			}
			seen.rows[digestOf(row.key())] = true
		}
		r.report(0, false)
		offset += len(page.rows)
		switch {
		case seen.end >= 0:
		case len(page.rows) == 0 || len(page.rows) < size && offset >= page.total:
			seen.end = offset
		case offset-from > 4*len(r.given)+10*size:
			return r.incomplete("the HermesX server gives the same rows again and again", false)
		}
	}
	seen.note(&seen.length, seen.end-seen.first)
	return nil
}

// isRefusal reports an answer in whose place that to a smaller page may be good:
// there is a row that the server cannot give, or that is no row.
func (r *reading[T]) isRefusal(err error) bool {
	failure, ok := errors.AsType[*feedback.Error](err)
	return ok && (failure.StatusCode == http.StatusInternalServerError || failure.StatusCode == http.StatusOK) && r.ctx.Err() == nil
}

// stepOver finds the first row of a page that cannot be had, gives what comes
// before it, and has the reading go on behind it. Where the server cannot answer
// at all, it waits for it, and nothing is stepped over.
func (r *reading[T]) stepOver(refusal error) error {
	if answers, err := r.stillAnswers(refusal); !answers || err != nil {
		return err
	}
	asked, before := r.asked, page[T]{}
	good, bad := 0, asked.limit // pages of good rows can be had, those of bad ones cannot
	for bad-good > 1 {
		asked.limit = (good + bad) / 2
		page, err := r.get(asked)
		switch {
		case err == nil:
			good, before = asked.limit, page
		case r.isRefusal(err):
			bad, refusal = asked.limit, err
		default:
			return r.fail(err)
		}
	}
	if answers, err := r.stillAnswers(refusal); !answers || err != nil {
		return err // the rows of an outage are not stepped over
	}
	if r.left == mostLeft {
		return r.fail(refusal)
	}
	r.largest = r.most
	if good > 0 {
		r.asked.limit = good
		got, err := r.take(before)
		if err != nil {
			return err
		}
		_, err = r.get(place{asked.before, asked.offset + good, 1})
		if !got.joined || err == nil { // it has moved, or the page was too long as a whole
			r.largest = max(2, good)
			return r.goOnAfter(before, got)
		}
		if !r.isRefusal(err) {
			return r.fail(err)
		}
	}
	r.left++
	r.asked.offset, r.asked.limit, r.joined = asked.offset+good+1, r.limit, true
	return nil
}

// stillAnswers tells a page that cannot be had from a server that cannot answer:
// that one is waited for.
func (r *reading[T]) stillAnswers(refusal error) (bool, error) {
	failure, _ := errors.AsType[*feedback.Error](refusal)
	if failure.StatusCode == http.StatusOK && r.waits.answers > 0 {
		return true, nil
	}
	if r.waits.answers == 0 { // has it ever? One of two rows should do.
		for row := range 2 {
			if _, err := r.get(place{r.asked.before, r.asked.offset + row, 1}); err == nil || !r.isRefusal(err) {
				return err == nil, r.fail(err)
			}
		}
		return false, r.fail(refusal)
	}
	_, reply, err := r.client.auditLogs(r.ctx, AuditQuery{Limit: 1}, true)
	if err == nil {
		r.waits.answered(reply)
		return true, nil
	}
	if failure, ok := errors.AsType[*feedback.Error](err); ok && r.isRefusal(err) {
		err = r.waits.after(failure)
	}
	return false, r.fail(err)
}

// findItself looks for the last request of the reading in the log that was read.
func (r *reading[T]) findItself() error {
	found, err := r.client.findInLog(&r.waits, r.requestID)
	switch {
	case err != nil:
		return r.fail(err)
	case !found:
		return r.incomplete("the audit log lacks the requests that have just been made to read it, so it is not known to be the whole log. The server's database role may not be allowed to see the rows", true)
	}
	return nil
}

// incomplete is the error of a list that is not whole. At the end there is
// nothing to go on with.
func (r *reading[T]) incomplete(why string, atEnd bool) error {
	failure := failures.New(failures.Failure{
		Event: failures.BadBody, Step: failures.ExecutionList, Status: http.StatusOK, Dispatched: true, RequestID: r.requestID,
		Message: "The list is incomplete: " + why + ". It must not be presented as complete.",
		Causes:  []error{ErrIncomplete},
	})
	if !atEnd {
		failure.Cursor = r.cursor()
	}
	return failure
}

// fail gives an error with the cursor to go on from.
func (r *reading[T]) fail(err error) error {
	failure, ok := errors.AsType[*feedback.Error](err)
	if !ok {
		return err
	}
	shown := *failure
	shown.Cursor, shown.RequestID = r.cursor(), cmp.Or(failure.RequestID, r.requestID)
	return &shown
}

// report tells of a page, or of a wait.
func (r *reading[T]) report(wait time.Duration, rateLimited bool) {
	if r.waits.settings.progress != nil {
		r.waits.settings.progress(Progress{Rows: r.rows, Counted: r.counted, Wait: wait, RateLimited: rateLimited, Cursor: r.cursor()})
	}
}

// get gives a page, after all waits that it takes.
func (r *reading[T]) get(asked place) (got page[T], err error) {
	err = r.waits.ask(func(once bool) (reply, error) {
		got, err = r.fetch(r.ctx, asked, once)
		return got.reply, err
	})
	if err == nil {
		r.requestID, r.counted = got.reply.loggedID(), got.total
	}
	return got, err
}
