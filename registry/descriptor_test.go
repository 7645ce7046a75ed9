package registry_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/registry"
)

// vectors are the parts of testdata/registry.json that concern descriptors.
type vectors struct {
	HubURLs []struct {
		HubURL            string `json:"hub_url"`
		AllowInsecureHTTP bool   `json:"allow_insecure_http"`
		Normalized        string `json:"normalized"`
		Error             bool   `json:"error"`
	} `json:"hub_urls"`
	Routes []struct {
		Workspace string `json:"workspace"`
		Error     bool   `json:"error"`
	} `json:"routes"`
	ClientAppIDs []struct {
		ClientAppID string `json:"client_app_id"`
		Error       bool   `json:"error"`
	} `json:"client_app_ids"`
	Keys         []keyVector `json:"keys"`
	InstanceKeys []keyVector `json:"instance_keys"`
}

type keyVector struct {
	HubURL        string `json:"hub_url"`
	ClientAppID   string `json:"client_app_id"`
	Workspace     string `json:"workspace"`
	InstanceID    string `json:"connection_instance_id"`
	ConnectionKey string `json:"connection_key"`
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	data, err := os.ReadFile("../testdata/registry.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.HubURLs) == 0 || len(v.Routes) == 0 || len(v.ClientAppIDs) == 0 || len(v.Keys) == 0 || len(v.InstanceKeys) == 0 {
		t.Fatal("a part of the vectors is empty")
	}
	return v
}

func TestNormalizeHubURLVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).HubURLs {
		got, err := registry.NormalizeHubURL(v.HubURL, v.AllowInsecureHTTP)
		if v.Error {
			if got != "" {
				t.Errorf("NormalizeHubURL(%q, %t) = %q, want an error", v.HubURL, v.AllowInsecureHTTP, got)
			}
			wantInvalid(t, err, "Hub URL", v.HubURL)
			continue
		}
		if err != nil || got != v.Normalized {
			t.Errorf("NormalizeHubURL(%q, %t) = %q, %v; want %q", v.HubURL, v.AllowInsecureHTTP, got, err, v.Normalized)
		}
		if again, err := registry.NormalizeHubURL(got, v.AllowInsecureHTTP); err != nil || again != got {
			t.Errorf("NormalizeHubURL(%q, %t) = %q, %v; want no change", got, v.AllowInsecureHTTP, again, err)
		}
	}
}

func TestDescriptorIdentifierVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	for _, route := range v.Routes {
		d := shop()
		d.Workspace = route.Workspace
		checkDescriptor(t, d, route.Error, "workspace", route.Workspace)
	}
	for _, client := range v.ClientAppIDs {
		d := shop()
		d.ClientAppID = client.ClientAppID
		checkDescriptor(t, d, client.Error, "client app ID", client.ClientAppID)
	}
}

func checkDescriptor(t *testing.T, d registry.Descriptor, refused bool, argument, value string) {
	t.Helper()
	key, err := d.ConnectionKey()
	switch {
	case refused && key != "":
		t.Errorf("ConnectionKey of %s %q = %q, want an error", argument, value, key)
	case refused:
		wantInvalid(t, err, argument, "")
		if _, err := d.InstanceKey(instance); err == nil {
			t.Errorf("InstanceKey of %s %q: no error", argument, value)
		}
	case err != nil:
		t.Errorf("ConnectionKey of %s %q: %v", argument, value, err)
	}
}

func TestKeyVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	for _, key := range append(v.Keys, v.InstanceKeys...) {
		d := registry.Descriptor{HubURL: key.HubURL, ClientAppID: key.ClientAppID, Workspace: key.Workspace}
		got, err := d.ConnectionKey()
		if key.InstanceID != "" {
			got, err = d.InstanceKey(key.InstanceID)
		}
		if err != nil || got != key.ConnectionKey {
			t.Errorf("key of %+v = %q, %v", key, got, err)
		}
	}
}

func TestKeyIgnoresSpellingAndInsecureFlag(t *testing.T) {
	t.Parallel()
	want, err := shop().ConnectionKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"HTTPS://HUB.example.COM:443/", "https://hub.example.com:/"} {
		d := registry.Descriptor{HubURL: url, ClientAppID: "commerce-agent", Workspace: "inventory", AllowInsecureHTTP: true}
		if got, err := d.ConnectionKey(); err != nil || got != want {
			t.Errorf("ConnectionKey of %q = %q, %v; want %q", url, got, err, want)
		}
	}
}

func TestInstanceKeyRefuses(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", instance[1:], strings.ToUpper(instance), instance + "\n", "conn_0123456789abcdef0123456789abcdef"} {
		key, err := shop().InstanceKey(id)
		wantInvalid(t, err, "instance ID", id)
		if key != "" {
			t.Errorf("InstanceKey(%q) = %q beside an error", id, key)
		}
	}
}

func TestBindingJSON(t *testing.T) {
	t.Parallel()
	want := registry.Binding{HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory", SessionID: session}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	const text = `{"hub_url":"https://hub.example.com","client_app_id":"commerce-agent","workspace":"inventory","session_id":"` + session + `"}`
	if string(data) != text {
		t.Errorf("JSON of a binding is %s, want %s", data, text)
	}
	var got registry.Binding
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("binding after JSON (-want +got):\n%s", diff)
	}
}

func FuzzNormalizeHubURL(f *testing.F) {
	for _, url := range []string{
		"https://hub.example.com/bailing/", "HTTP://LOCALHOST:080", "https://[::ffff:1.2.3.4]:443//a", "https://中枢。example.com/%7e",
		"https://0x7f.1", "https://xn--fiq933d", "https://a\uff0fb", "https://h/a%2Eb/..", "https://user:pw@h?x=canary", "http://hub:0/;x=[1]",
	} {
		f.Add(url, true)
		f.Add(url, false)
	}
	f.Fuzz(func(t *testing.T, raw string, allow bool) {
		normal, err := registry.NormalizeHubURL(raw, allow)
		if err != nil {
			wantInvalid(t, err, "Hub URL", "")
			return
		}
		if again, err := registry.NormalizeHubURL(normal, allow); err != nil || again != normal {
			t.Fatalf("normal form %q of %q becomes %q, %v", normal, raw, again, err)
		}
		d := registry.Descriptor{HubURL: raw, ClientAppID: "commerce-agent", Workspace: "inventory", AllowInsecureHTTP: allow}
		key, err := d.ConnectionKey()
		d.HubURL = normal
		if again, againErr := d.ConnectionKey(); err != nil || againErr != nil || key != again {
			t.Fatalf("keys of %q and its normal form are %q, %v and %q, %v", raw, key, err, again, againErr)
		}
	})
}
