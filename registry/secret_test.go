package registry_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	html "html/template"
	"log"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	text "text/template"

	"github.com/google/go-cmp/cmp"

	"github.com/bailinghub/bailinghub-go/registry"
)

// holders are all the places that a secret may be in when it is printed.
func holders() map[string]any {
	type exported struct{ Secret registry.Secret }
	type unexported struct {
		secret  registry.Secret
		pointer *registry.Secret
		deep    struct{ list []registry.Secret }
	}
	secret, login := registry.NewSecret(accessCanary), credentials()
	hidden := unexported{secret: secret, pointer: &secret}
	hidden.deep.list = []registry.Secret{secret}
	return map[string]any{
		"a secret":                        secret,
		"a pointer":                       &secret,
		"an exported field":               exported{secret},
		"an unexported field":             hidden,
		"a pointer to unexported":         &hidden,
		"a slice":                         []registry.Secret{secret},
		"a map":                           map[string]registry.Secret{"token": secret},
		"a map key":                       map[registry.Secret]int{secret: 1},
		"an interface":                    []any{secret, &secret},
		"credentials":                     login,
		"a pointer to credentials":        &login,
		"credentials in a field":          struct{ Login registry.Credentials }{login},
		"credentials in unexported":       struct{ login registry.Credentials }{login},
		"credentials in a map":            map[string]registry.Credentials{"conn": login},
		"an error":                        errors.Join(fmt.Errorf("login %v of %+v", login, secret)),
		"a reflect.Value":                 reflect.ValueOf(login),
		"a reflect.Value of a secret":     reflect.ValueOf(secret),
		"a reflect.Value of unexported":   reflect.ValueOf(hidden),
		"a function's result (unrelated)": func() registry.Secret { return secret },
	}
}

func TestSecretsPrintAsNothing(t *testing.T) {
	t.Parallel()
	for name, holder := range holders() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, flag := range []string{"", "+", "#", " ", "0", "-", "+#", "200", ".300", "*"} {
				for verb := rune('!'); verb < 0x7f; verb++ {
					if verb == '%' {
						continue
					}
					format := "%" + flag + string(verb)
					wantNoCanary(t, fmt.Sprintf(format, holder))
					wantNoCanary(t, fmt.Sprintf(format, 1, holder))
				}
			}
			for _, format := range []string{"no verb", "%[2]v", "%[x]v", "%w %v", "%", "%.*v"} {
				wantNoCanary(t, fmt.Sprintf(format, holder))
				wantNoCanary(t, fmt.Errorf(format, holder).Error())
			}
			wantNoCanary(t, fmt.Sprint(holder)+fmt.Sprintln(holder))
			encodings(t, holder)
			logs(t, holder)
			templates(t, holder)
		})
	}
}

func encodings(t *testing.T, holder any) {
	data, err := json.Marshal(holder)
	wantNoCanary(t, fmt.Sprint(string(data), err))
	data, err = xml.Marshal(holder)
	wantNoCanary(t, fmt.Sprint(string(data), err))
	var out bytes.Buffer
	err = gob.NewEncoder(&out).Encode(holder)
	wantNoCanary(t, fmt.Sprint(out.String(), err))
}

func logs(t *testing.T, holder any) {
	var out bytes.Buffer
	options := &slog.HandlerOptions{Level: slog.LevelDebug}
	for _, handler := range []slog.Handler{slog.NewJSONHandler(&out, options), slog.NewTextHandler(&out, options)} {
		logger := slog.New(handler).With("with", holder)
		logger.InfoContext(context.Background(), "message", "value", holder, slog.Group("group", "value", holder), slog.Any("any", []any{holder}))
	}
	log.New(&out, "", 0).Print(holder)
	wantNoCanary(t, out.String())
}

func templates(t *testing.T, holder any) {
	const source = `{{.}} {{print .}} {{printf "%#v %s %q" . . .}} {{html .}} {{js .}} {{urlquery .}} {{range $k, $v := .}}{{$k}}{{$v}}{{end}}`
	for _, source := range []string{source[:strings.Index(source, "{{range")], source} {
		var out bytes.Buffer
		err := text.Must(text.New("").Parse(source)).Execute(&out, holder)
		wantNoCanary(t, fmt.Sprint(out.String(), err))
	}
	var out bytes.Buffer
	page := html.Must(html.New("").Parse(`<a href="/?q={{.}}" onclick="f({{.}})" title={{.}}>{{.}}</a><script>var x = {{.}};</script><style>a{b:{{.}}}</style>`))
	err := page.Execute(&out, holder)
	wantNoCanary(t, fmt.Sprint(out.String(), err))
}

func TestSecretPrintsPlaceholder(t *testing.T) {
	t.Parallel()
	secret := registry.NewSecret(accessCanary)
	const want = "[redacted]"
	for _, got := range []string{
		fmt.Sprint(secret), fmt.Sprintf("%#v", secret), fmt.Sprintf("%x", secret), fmt.Sprintf("%d", secret), fmt.Sprintf("%q", secret),
		secret.String(), secret.GoString(), secret.LogValue().String(), fmt.Sprint(registry.Secret{}),
	} {
		if got != want {
			t.Errorf("a secret prints as %q, want %q", got, want)
		}
	}
	data, err := json.Marshal(struct{ Token registry.Secret }{secret})
	if err != nil || string(data) != `{"Token":"[redacted]"}` {
		t.Errorf("JSON of a struct with a secret is %s, %v", data, err)
	}
	// A placeholder must not come back as if it were the token.
	var back struct{ Token registry.Secret }
	if err := json.Unmarshal(data, &back); err == nil || back.Token != (registry.Secret{}) {
		t.Errorf("the placeholder unmarshals: %v", err)
	}
}

func TestSecretReveal(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a", accessCanary, "令牌\x00\xff"} {
		secret := registry.NewSecret(s)
		if got := secret.Reveal(); got != s {
			t.Errorf("NewSecret(%q).Reveal() = %q", s, got)
		}
		same, other := registry.NewSecret(strings.Clone(s)), registry.NewSecret(s+"x")
		if secret != same || !secret.Equal(same) || secret == other || secret.Equal(other) {
			t.Errorf("secrets of %q do not compare by value", s)
		}
		if !reflect.DeepEqual(secret, same) || !cmp.Equal(secret, same) || cmp.Equal(secret, other) {
			t.Errorf("secrets of %q do not compare by value in reflect or cmp", s)
		}
	}
	if (registry.Secret{}).Reveal() != "" {
		t.Error("the zero secret is not empty")
	}
}
