// Package registrytest is the suite that every [registry.Store] must pass: the
// ones of this SDK, and yours.
//
// Write a test that gives it a way to open your store, empty, and to fill it:
//
//	func TestMain(m *testing.M) {
//		registrytest.Child(func(address string) (registry.Store, error) { return mystore.Open(address) })
//		os.Exit(m.Run())
//	}
//
//	func TestStore(t *testing.T) {
//		registrytest.TestStore(t, func(t testing.TB) registrytest.Fixture {
//			db := newDatabase(t)
//			store, other := mystore.Open(db.URL), mystore.Open(db.URL)
//			return registrytest.Fixture{
//				Store: store, Other: other,
//				Address: db.URL, // by which Child opens it in another process
//				Register: store.Register, Login: store.Login, Logout: store.Logout, Remove: store.Remove,
//				Plant: db.Write, // optional: into the row, past all checks
//			}
//		})
//	}
//
// What it asks for stands at [registry.Store], and a failure names the paragraph
// there that it comes from: Reads, Errors, Exclusion, At most once, Saving or
// Failing. It catches a store that runs an
// update twice, loses a rotation, overwrites a newer login, saves an empty
// token, or holds everybody up while one refresh is slow, and some thirty other
// faults, each of which ends in a logged-out person or in evidence read under
// the wrong authorization. A store that is a [registry.LoginReader] too is
// checked as one.
//
// A store that is right passes however slow the machine is. One that waits
// where it must not is given up on after [Limit].
package registrytest
