package databasetest_test

import (
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

// The clock of a database is read without its time zone: leases and claims do
// not last an hour longer because clocks were set back.
func TestClock(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		before := time.Now()
		c := loggedIn(t, d.open(t, namespace(), sqlstore.WithKeys(key(1))), "shop")
		if c.CreatedAt.Before(before.Add(-time.Second)) || c.CreatedAt.After(time.Now().Add(time.Second)) {
			t.Errorf("registered at %v, at %v of the clock of this process", c.CreatedAt, before.UTC())
		}
	})
}
