package registry_test

import (
	"testing"

	"github.com/bailinghub/bailinghub-go/registry"
)

func TestBindingEqual(t *testing.T) {
	t.Parallel()
	with := func(change func(*registry.Binding)) registry.Binding {
		b := credentials().Binding()
		change(&b)
		return b
	}
	binding := with(func(*registry.Binding) {})
	for name, test := range map[string]struct {
		one, other registry.Binding
		want       bool
	}{
		"the same":               {binding, binding, true},
		"another spelling":       {binding, with(func(b *registry.Binding) { b.HubURL = "HTTPS://Hub.Example.com:443/" }), true},
		"both spelled otherwise": {with(func(b *registry.Binding) { b.HubURL = "https://hub.example.com/" }), with(func(b *registry.Binding) { b.HubURL = "https://HUB.example.com" }), true},
		"plain http":             {with(func(b *registry.Binding) { b.HubURL = "http://hub.internal" }), with(func(b *registry.Binding) { b.HubURL = "http://hub.internal:80" }), true},
		"another scheme":         {binding, with(func(b *registry.Binding) { b.HubURL = "http://hub.example.com" }), false},
		"another path":           {binding, with(func(b *registry.Binding) { b.HubURL += "/bailing" }), false},
		"another client":         {binding, with(func(b *registry.Binding) { b.ClientAppID = "other-agent" }), false},
		"another workspace":      {binding, with(func(b *registry.Binding) { b.Workspace = "orders" }), false},
		"another session":        {binding, with(func(b *registry.Binding) { b.SessionID = "22222222-2222-4222-8222-222222222222" }), false},
		"another letter case":    {with(func(b *registry.Binding) { b.SessionID = "AAAAAAAA-1111-4111-8111-111111111111" }), with(func(b *registry.Binding) { b.SessionID = "aaaaaaaa-1111-4111-8111-111111111111" }), false},
	} {
		if got := test.one.Equal(test.other); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
		if got := test.other.Equal(test.one); got != test.want {
			t.Errorf("%s, the other way round: %v, want %v", name, got, test.want)
		}
	}
	// What is not valid equals nothing, not even itself.
	for name, change := range map[string]func(*registry.Binding){
		"zero":         func(b *registry.Binding) { *b = registry.Binding{} },
		"no Hub":       func(b *registry.Binding) { b.HubURL = "" },
		"a Hub's user": func(b *registry.Binding) { b.HubURL = "https://user@hub.example.com" },
		"no client":    func(b *registry.Binding) { b.ClientAppID = "" },
		"auto":         func(b *registry.Binding) { b.Workspace = "auto" },
		"no session":   func(b *registry.Binding) { b.SessionID = "session" },
	} {
		invalid := with(change)
		if invalid.Equal(invalid) || invalid.Equal(binding) || binding.Equal(invalid) {
			t.Errorf("%s: a binding that is not valid equals something", name)
		}
	}
}
