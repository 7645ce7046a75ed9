package databasetest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/host/journal/sqljournal"
	"github.com/bailinghub/bailinghub-go/registry"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

// A row that somebody changed by hand is given to nobody, whichever way it is
// asked for, and keeps nobody from the others.
func TestDamagedOperation(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		for name, change := range map[string]string{
			"no original":                "original = '{}'",
			"no JSON":                    "original = 'not JSON'",
			"another invocation":         "invocation_id = '" + host.NewInvocationID() + "'",
			"another call":               "call_id = 'call-of-another'",
			"a report that is not JSON":  "report = '{'",
			"a state that there is not":  "state = 'executed'",
			"an original of another Hub": "original = REPLACE(original, 'https://hub.example.com', 'not a Hub')",
		} {
			j := d.journal(t, newName())
			ids := add(t, j, 2)
			// The hash of the call stays, so that the row is found by it.
			_, err := d.db.Exec("UPDATE bailinghub_operations SET " + change + " WHERE invocation_id = '" + ids[0] + "'")
			must(t, err)
			if _, err := j.Find(t.Context(), "call-"+ids[0]); !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), "row ") {
				t.Errorf("%s: Find: %v", name, err)
			}
			claims, err := j.Claim(t.Context(), 10)
			if err != nil || len(claims) != 1 || claims[0].Entry.Original.InvocationID != ids[1] {
				t.Errorf("%s: Claim: %d operations, %v", name, len(claims), err)
			}
		}
		// Where there is nothing else, it is told, once in a claim's time.
		j := d.journal(t, newName())
		_, err := d.db.Exec("UPDATE bailinghub_operations SET original = '{}' WHERE invocation_id = '" + add(t, j, 1)[0] + "'")
		must(t, err)
		if claims, err := j.Claim(t.Context(), 10); len(claims) != 0 || !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("Claim of a damaged one: %d operations, %v", len(claims), err)
		}
		if claims, err := j.Claim(t.Context(), 10); len(claims) != 0 || err != nil {
			t.Errorf("Claim of one that was put off: %d operations, %v", len(claims), err)
		}
	})
}

// An entry is withdrawn, the answer is lost, and the same call is added anew: the
// second attempt leaves the new entry alone.
func TestWithdrawWhoseAnswerIsLost(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		var f faults
		name := newName()
		j, err := sqljournal.Open(t.Context(), d.faulty(t, &f), d.dialect, sqljournal.WithNamespace(name))
		must(t, err)
		id, anew := add(t, j, 1)[0], host.NewInvocationID()
		other, lost := d.journal(t, name), false
		f.reset(func(_ int, statement string) (error, bool) {
			switch {
			case strings.HasPrefix(statement, "DELETE") && !lost:
				lost = true
				return errors.New("unexpected EOF"), true
			case lost && anew != "":
				if err := other.Add(t.Context(), journal.Entry{CallID: "call-" + id, Original: original(anew)}); err != nil {
					return fmt.Errorf("adding it anew: %w", err), false
				}
				anew = ""
			}
			return nil, true
		})
		must(t, j.Withdraw(t.Context(), "call-"+id))
		f.reset(nil)
		if entry, err := other.Find(t.Context(), "call-"+id); err != nil || !entry.IsOpen() {
			t.Errorf("the new entry: %v, %v", entry.State, err)
		}
	})
}

// A connection that somebody changed by hand is not used, and says so.
func TestDamagedConnection(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		for _, change := range []string{
			"hub_url = 'https://other.example.com'",
			"client_app_id = 'another-agent'",
			"workspace = 'another'",
			"instance_id = 'instance_" + strings.Repeat("0", 32) + "'",
		} {
			name := fmt.Sprint("row-", namespaces.Add(1))
			store := d.open(t, sqlstore.WithNamespace(name), sqlstore.WithKeys(key(1)))
			c := loggedIn(t, store, "shop")
			_, err := d.db.Exec("UPDATE bailinghub_connections SET " + change + " WHERE namespace = '" + name + "'")
			must(t, err)
			if _, err := store.Connection(t.Context(), c.Key); !errors.Is(err, registry.ErrDamaged) {
				t.Errorf("%s: Connection: %v", change, err)
			}
			if _, err := store.Credentials(t.Context(), c.Key); !errors.Is(err, registry.ErrDamaged) {
				t.Errorf("%s: Credentials: %v", change, err)
			}
			if _, err := store.List(t.Context()); !errors.Is(err, registry.ErrDamaged) {
				t.Errorf("%s: List: %v", change, err)
			}
		}
	})
}

// A login that stands in the row of another connection is not used, also where
// no key binds it to its row.
func TestMovedPlainLogin(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		name := fmt.Sprint("row-", namespaces.Add(1))
		store := d.open(t, sqlstore.WithNamespace(name), sqlstore.WithPlainTokens())
		from, to := loggedIn(t, store, "shop"), loggedIn(t, store, "other-shop")
		must(t, d.setLogin(t.Context(), name, to.Key, d.login(t, name, from.Key)))
		if _, err := store.Credentials(t.Context(), to.Key); !errors.Is(err, registry.ErrDamaged) {
			t.Errorf("Credentials: %v", err)
		}
	})
}

// What another replica changes between the reading of an entry and its writing
// is not written over.
func TestChangeBetweenReadingAndWriting(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		var f faults
		name := newName()
		j, err := sqljournal.Open(t.Context(), d.faulty(t, &f), d.dialect, sqljournal.WithNamespace(name))
		must(t, err)
		id, other, given := add(t, j, 1)[0], d.journal(t, name), false
		f.reset(func(_ int, statement string) (error, bool) {
			if !given && strings.HasPrefix(statement, "UPDATE") {
				given = true
				return other.GiveUp(t.Context(), id, "the operator looked at the shop"), true
			}
			return nil, true
		})
		if _, err := j.Record(t.Context(), id, settled(id)); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("Record: %v", err)
		}
		f.reset(nil)
		if entry, err := other.FindInvocation(t.Context(), id); err != nil || entry.State != journal.StateGivenUp {
			t.Errorf("the entry is %s, %v", entry.State, err)
		}
	})
}
