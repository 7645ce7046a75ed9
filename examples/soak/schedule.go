package main

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
)

// The kinds of faults, as the final table has them.
const (
	faultRefused   = "connection refused"
	faultDelayed   = "delayed"
	faultSliced    = "sliced into a few bytes"
	faultGarbled   = "garbled"
	faultTruncated = "truncated"
	faultReset     = "reset"
	faultSwallowed = "swallowed"
	faultStatus    = "answered " // and the status
	faultLost      = "lost by the Hub"
	faultCut       = "cut by the Hub"
	faultSlow      = "slow at the Hub"
)

// A script is what happens to one connection. It ends every connection in the
// end: after some bytes or other comes a fault that it does not survive.
type script struct {
	refused  bool
	up, down []fault // by their place in the stream
}

// A fault strikes when so many bytes of its direction have passed.
type fault struct {
	at     int
	kind   string
	time   time.Duration
	bytes  int
	garble func(byte) byte
}

// random is the source of one thing that the seed decides: the same for the
// same seed and names.
func random(seed uint64, names ...string) *rand.Rand {
	hash := fnv.New64a()
	for _, name := range names {
		hash.Write([]byte(name + "\x00"))
	}
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

// scripts gives the scripts of a Hub's connections by their number.
func scripts(seed uint64, hub string, tls bool) func(int) script {
	return func(connection int) script {
		r := random(seed, "connection", hub, strconv.Itoa(connection))
		if r.IntN(40) == 0 {
			return script{refused: true}
		}
		return script{up: direction(r, tls, 16<<10), down: direction(r, tls, 32<<10)}
	}
}

// direction writes one direction of a script; apart is how many bytes lie
// between two faults, on average.
func direction(r *rand.Rand, tls bool, apart int) (faults []fault) {
	for at := 0; ; {
		at += 1 + int(min(-math.Log(1-r.Float64()), 5)*float64(apart))
		f := fault{at: at}
		switch n := r.IntN(100); {
		case n < 30:
			f.kind, f.time = faultDelayed, time.Duration(1+r.IntN(300))*time.Millisecond
		case n < 45:
			f.kind, f.bytes = faultSliced, 1+r.IntN(2000)
		case n < 60:
			f.kind, f.garble = faultGarbled, garbled(r, tls)
		case n < 75:
			f.kind = faultTruncated
		case n < 90:
			f.kind = faultReset
		default:
			f.kind, f.time = faultSwallowed, time.Duration(1+r.IntN(2000))*time.Millisecond
		}
		faults = append(faults, f)
		switch f.kind {
		case faultTruncated, faultReset, faultSwallowed:
			return faults
		}
	}
}

// garbled makes another byte of one. Without TLS it is 0xFF: nothing could tell
// one letter of a text from another that was put in its place, but this byte is
// legal in no UTF-8.
func garbled(r *rand.Rand, tls bool) func(byte) byte {
	change := byte(1 + r.IntN(255))
	return func(b byte) byte {
		if tls {
			return b ^ change
		}
		return 0xff
	}
}

// perBlock is for how many requests the faults of a Hub are decided at a time.
const perBlock = 200

// block gives the faults that a Hub makes itself among its next requests.
func block(seed uint64, hub string, number int, met func(kind string)) (faults []hubtest.Fault) {
	r := random(seed, "block", hub, strconv.Itoa(number))
	for n := range perBlock {
		if r.IntN(12) != 0 {
			continue
		}
		f, kind := hubtest.Fault{Skip: n - len(faults)}, ""
		switch n := r.IntN(100); {
		case n < 55:
			statuses := []int{500, 502, 503, 504, 408, 425, 429}
			f.Status = statuses[r.IntN(len(statuses))]
			f.Body = []byte(`{"error":"internal_error","message":"Synthetic message."}`)
			if r.IntN(3) == 0 {
				f.Header = http.Header{"Retry-After": {strconv.Itoa(r.IntN(2))}}
			}
			kind = faultStatus + strconv.Itoa(f.Status)
		case n < 65:
			f.Drop = hubtest.DropRequest
		case n < 75:
			f.Drop = hubtest.DropAnswer
		case n < 85:
			f.Drop, kind = hubtest.DropMidBody, faultCut
		case n < 98:
			f.Latency, kind = time.Duration(1+r.IntN(200))*time.Millisecond, faultSlow
		default:
			f.ByteInterval, kind = time.Millisecond, faultSlow
		}
		// Called with the answer, so not for one that is lost as a whole.
		f.Rewrite = func(body []byte) []byte {
			met(kind)
			return body
		}
		faults = append(faults, f)
	}
	return faults
}
