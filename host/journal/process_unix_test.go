//go:build unix

package journal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/internal/childtest"
	"github.com/bailinghub/bailinghub-go/registry"
)

func init() {
	children["hold"] = hold
	children["host"] = runHost
	children["file size"] = beyondTheFileSize
}

func hold(args []string) error {
	f, err := journal.OpenFile(args[0])
	if err != nil {
		return err
	}
	if err := f.Add(context.Background(), operation(1)); err != nil {
		return err
	}
	return childtest.Proceed("open")
}

// Another process is told who has the journal, and gets it when that one was
// killed.
func TestOneProcessAtATime(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	child := childtest.Start(t, "hold", path)
	child.Says("open")
	_, err := journal.OpenFile(path)
	if want := fmt.Sprintf("by process %d ", child.Process.Pid); !errors.Is(err, journal.ErrInUse) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	must(t, child.Process.Kill())
	_, _ = child.End()
	if got := callsOf(t, open(t, path)); len(got) != 1 {
		t.Errorf("%v are open", got)
	}
}

// beyondTheFileSize fills a journal up to the limit that the process has for
// files.
func beyondTheFileSize(args []string) error {
	ctx := context.Background()
	f, err := journal.OpenFile(args[0])
	if err != nil {
		return err
	}
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limit.Cur = 20_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	kept, err := fill(ctx, f, syscall.EFBIG)
	if err != nil {
		return err
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	return goesOn(ctx, args[0], f, kept)
}

// fill adds operations until there is no room, and some more.
func fill(ctx context.Context, f *journal.File, want error) (kept int, err error) {
	for ; err == nil; kept++ {
		err = f.Add(ctx, operation(kept))
	}
	kept--
	if !errors.Is(err, want) {
		return 0, fmt.Errorf("after %d entries: %w, want %w", kept, err, want)
	}
	for n := range 3 {
		if err := f.Add(ctx, operation(kept+n)); !errors.Is(err, want) {
			return 0, fmt.Errorf("once more: %w", err)
		}
		if _, err := f.Find(ctx, operation(kept+n).CallID); !errors.Is(err, journal.ErrNotFound) {
			return 0, fmt.Errorf("an entry that was refused is there: %w", err)
		}
	}
	return kept, nil
}

// goesOn checks that a journal that had no room goes on once it has, and that
// everything is there when it is opened again.
func goesOn(ctx context.Context, path string, f *journal.File, kept int) error {
	if err := f.Add(ctx, operation(kept)); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	f, err := journal.OpenFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if torn := f.Torn(); torn != (journal.Torn{}) {
		return fmt.Errorf("something was cut off: %+v", torn)
	}
	for n := range kept + 1 {
		if _, err := f.Find(ctx, operation(n).CallID); err != nil {
			return fmt.Errorf("entry %d of %d: %w", n, kept+1, err)
		}
	}
	return nil
}

// A limit on the size of files refuses the Add, and nothing else happens.
func TestBeyondTheFileSizeLimit(t *testing.T) {
	t.Parallel()
	childtest.Start(t, "file size", newPath(t)).Done()
}

// killed is what the host process of TestKilledAtRandom is told.
type killed struct {
	Path, Login string
	Round       int
	First       bool // of this journal
}

// runHost is a host: it begins operations, sends them, asks about them and
// records what it learns, until it is killed. First of all it makes the calls of
// the round before once more, as a framework does after a restart.
func runHost(args []string) error {
	ctx := context.Background()
	var told killed
	if err := json.Unmarshal([]byte(args[0]), &told); err != nil {
		return err
	}
	text, err := os.ReadFile(told.Login)
	if err != nil {
		return err
	}
	credentials, err := registry.DecodeCredentials(text)
	if err != nil {
		return err
	}
	store := registry.NewMemory()
	connection, err := store.Register(ctx, registry.Descriptor{HubURL: credentials.HubURL, ClientAppID: credentials.ClientAppID, Workspace: credentials.Workspace})
	if err != nil {
		return err
	}
	if err := store.SaveCredentials(ctx, connection.Key, credentials); err != nil {
		return err
	}
	transport, err := host.New(store)
	if err != nil {
		return err
	}
	f, err := journal.OpenFile(told.Path, journal.WithSizes(2_000, 1<<30))
	if err != nil {
		return err
	}
	fmt.Println("open")
	for n := 0; ; n++ {
		call := fmt.Sprintf("call_%d_%d", told.Round, n)
		if n < 4 && !told.First {
			call = fmt.Sprintf("call_%d_%d", told.Round-1, n)
		}
		entry, err := journal.Begin(ctx, f, transport, journal.Call{CallID: call, ConnectionKey: connection.Key, Tool: hubtest.WriteTool})
		if errors.Is(err, journal.ErrExists) {
			fmt.Println("known")
			continue
		}
		if err != nil {
			return err
		}
		fmt.Println("begun")
		if err := f.Sending(ctx, call); err != nil {
			return err
		}
		if err := send(credentials, entry); err != nil {
			return err
		}
		fmt.Println("sent")
		observed, err := transport.InspectInvocation(ctx, entry.Original)
		if _, err := f.Record(ctx, entry.Original.InvocationID, host.Explain(entry.Original, observed, err)); err != nil {
			return err
		}
		fmt.Println("recorded")
	}
}

// send hands an operation to the mock Hub. Its arguments are the call.
func send(credentials registry.Credentials, entry journal.Entry) error {
	arguments, err := json.Marshal(entry.CallID)
	if err != nil {
		return err
	}
	body, err := json.Marshal(hubtest.Submission{InvocationID: entry.Original.InvocationID, Route: entry.Original.Workspace, Tool: entry.Original.Tool, Arguments: arguments})
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodPost, credentials.HubURL+"/agent-api/v1/tool-invocations", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+credentials.AccessToken.Reveal())
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// TestKilledAtRandom kills a host 200 times at random points of beginning,
// sending, recording and compacting. Whatever reached the Hub is in the journal,
// no call reached it twice, and the journal opens each time.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	const rounds, roundsEach = 200, 5
	hub := hubtest.NewServer(t)
	var mu sync.Mutex
	reached := map[string][]string{} // the invocations that reached the business system, by call
	hub.EditRoute(hubtest.DefaultRoute, func(r *hubtest.Route) {
		r.Tools[hubtest.WriteTool] = hubtest.Tool{Run: func(_ context.Context, op hubtest.Operation) hubtest.Outcome {
			var call string
			if err := json.Unmarshal(op.Arguments, &call); err != nil {
				t.Error(err)
			}
			mu.Lock()
			reached[call] = append(reached[call], op.InvocationID)
			mu.Unlock()
			return hubtest.Executed(`{"ok":true}`)
		}}
	})
	session := hub.Login(hubtest.Grant{})
	login, err := registry.EncodeCredentials(session.Credentials(hub.URL, hubtest.DefaultRoute))
	must(t, err)
	var paths [rounds / roundsEach]string
	told := killed{Login: filepath.Join(t.TempDir(), "login.json")}
	must(t, os.WriteFile(told.Login, login, 0o600))

	// kept checks that a journal has what reached the Hub in its rounds.
	kept := func(path string, from, to int) *journal.File {
		f, err := journal.OpenFile(path)
		if err != nil {
			t.Fatalf("round %d: %v", to-1, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for call, ids := range reached {
			var round, n int
			if _, err := fmt.Sscanf(call, "call_%d_%d", &round, &n); err != nil {
				t.Fatal(err)
			}
			if round < from || round >= to {
				continue
			}
			e, err := f.Find(t.Context(), call)
			if err != nil || e.SendingAt.IsZero() || len(ids) != 1 || e.Original.InvocationID != ids[0] {
				t.Errorf("round %d: %s reached the Hub %d times, and the journal has %+v, %v", to-1, call, len(ids), e, err)
			}
		}
		return f
	}
	torn, known, compacted := 0, 0, 0
	for round := range rounds {
		told.Round, told.First = round, round%roundsEach == 0
		if told.First { // a file that is small is compacted more often
			told.Path = newPath(t)
		}
		args, err := json.Marshal(told)
		must(t, err)
		before, _ := os.Stat(told.Path)
		child := childtest.Start(t, "host", string(args))
		for range 1 + rand.IntN(24) {
			line, ok := child.Line()
			if !ok || strings.HasPrefix(line, "error:") {
				t.Fatalf("round %d: the host ended by itself: %s", round, line)
			}
			if line == "known" {
				known++
			}
		}
		must(t, child.Process.Kill())
		if said, _ := child.End(); strings.Contains(said, "error:") {
			t.Fatalf("round %d: %s", round, said)
		}
		f := kept(told.Path, round-round%roundsEach, round+1)
		if f.Torn().Bytes > 0 {
			torn++
		}
		if after, err := os.Stat(told.Path); err == nil && before != nil && !os.SameFile(before, after) {
			compacted++
		}
		must(t, f.Close())
		paths[round/roundsEach] = told.Path
	}
	for i, path := range paths { // what arrived late, too
		must(t, kept(path, i*roundsEach, (i+1)*roundsEach).Close())
	}
	if len(reached) < rounds/2 || known == 0 || compacted == 0 {
		t.Errorf("%d calls, %d known, %d compactions: the test tests too little", len(reached), known, compacted)
	}
	t.Log(len(reached), "operations,", known, "calls repeated,", compacted, "rounds with compactions,", torn, "torn ends")
}
