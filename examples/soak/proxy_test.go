package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// through sends text through a proxy with this script to a server that sends it
// back, and gives what came and how it ended.
func through(t *testing.T, text string, s script) (came string, met []string, ended error) {
	t.Helper()
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer server.Close()
	running.Go(func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	var mu sync.Mutex
	p, err := newProxy(server.Addr().String(), func(int) script { return s }, func(kind string) {
		mu.Lock()
		defer mu.Unlock()
		met = append(met, kind)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	conn, err := net.Dial("tcp4", p.address())
	if err != nil {
		return "", met, err // refused so soon
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, text)
	_ = conn.(*net.TCPConn).CloseWrite()
	all, err := io.ReadAll(conn)
	p.close() // and nothing more is met
	return string(all), met, err
}

func TestFaultsOfTheProxy(t *testing.T) {
	t.Parallel()
	at := func(f fault) []fault { f.at = 5; return []fault{f} }
	reset := func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
	whole := func(err error) bool { return err == nil }
	for _, test := range []struct {
		kind   string
		script script
		want   string // "" for whatever came before a reset
		ended  func(error) bool
		took   time.Duration
	}{
		{kind: "", want: "hello, world", ended: whole},
		{kind: faultRefused, script: script{refused: true}, ended: func(err error) bool { return err == nil || reset(err) }},
		{kind: faultDelayed, script: script{up: at(fault{kind: faultDelayed, time: 20 * time.Millisecond})}, want: "hello, world", ended: whole, took: 20 * time.Millisecond},
		{kind: faultSliced, script: script{down: at(fault{kind: faultSliced, bytes: 100})}, want: "hello, world", ended: whole},
		{kind: faultGarbled, script: script{down: at(fault{kind: faultGarbled, garble: func(b byte) byte { return b ^ 1 }})}, want: "hello- world", ended: whole},
		{kind: faultTruncated, script: script{down: at(fault{kind: faultTruncated})}, want: "hello", ended: whole},
		{kind: faultReset, script: script{down: at(fault{kind: faultReset})}, ended: reset},
		{kind: faultSwallowed, script: script{down: at(fault{kind: faultSwallowed, time: 20 * time.Millisecond})}, want: "hello", ended: whole, took: 20 * time.Millisecond},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			came, met, ended := through(t, "hello, world", test.script)
			if test.want != "" && came != test.want || !test.ended(ended) || time.Since(start) < test.took {
				t.Errorf("%q came, ended by %v after %v", came, ended, time.Since(start))
			}
			if test.kind == faultRefused && came != "" {
				t.Errorf("%q came over a refused connection", came)
			}
			if test.kind != "" && !slices.Equal(met, []string{test.kind}) {
				t.Errorf("met: %q", met)
			}
		})
	}
}

// The same seed makes the same faults, and another one others.
func TestSeedDecides(t *testing.T) {
	t.Parallel()
	all := func(seed uint64) (shown []any) {
		for n := range 50 {
			s := scripts(seed, "tls-http1", true)(n)
			for _, faults := range [][]fault{s.up, s.down} {
				for _, f := range faults {
					garbled := byte(0)
					if f.garble != nil {
						garbled = f.garble(0)
					}
					shown = append(shown, f.at, f.kind, f.time, f.bytes, garbled)
				}
			}
			for _, f := range block(seed, "tls-http1", n, func(string) {}) {
				shown = append(shown, f.Skip, f.Status, f.Drop, f.Latency, f.ByteInterval)
			}
		}
		return shown
	}
	if !reflect.DeepEqual(all(1), all(1)) || reflect.DeepEqual(all(1), all(2)) {
		t.Error("the seed does not decide the faults")
	}
}

// Every connection comes to an end, and every kind of fault comes up.
func TestScriptsHaveEverything(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for n := range 300 {
		s := scripts(1, "plain-http1", false)(n)
		seen[faultRefused] = seen[faultRefused] || s.refused
		for _, faults := range [][]fault{s.up, s.down} {
			for i, f := range faults {
				seen[f.kind] = true
				ends := f.kind == faultTruncated || f.kind == faultReset || f.kind == faultSwallowed
				if last := i == len(faults)-1; last != ends {
					t.Errorf("connection %d: fault %d of %d is %s", n, i+1, len(faults), f.kind)
				}
				if f.garble != nil && !strings.Contains(string(bytes.ToValidUTF8([]byte{f.garble('a')}, []byte("�"))), "�") {
					t.Error("a garbled byte of plain HTTP can stand in a text")
				}
			}
		}
	}
	for _, kind := range []string{faultRefused, faultDelayed, faultSliced, faultGarbled, faultTruncated, faultReset, faultSwallowed} {
		if !seen[kind] {
			t.Errorf("no connection is ever %s", kind)
		}
	}
}
