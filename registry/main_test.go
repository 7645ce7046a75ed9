package registry_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/registry"
)

const (
	session  = "11111111-1111-4111-8111-111111111111"
	instance = "instance_0123456789abcdef0123456789abcdef"
	// canaries are tokens that must not show anywhere.
	accessCanary  = "canary-access-5d41402abc4b2a76"
	refreshCanary = "canary-refresh-7d793037a0760186"
)

func shop() registry.Descriptor {
	return registry.Descriptor{HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory"}
}

func credentials() registry.Credentials {
	return registry.Credentials{
		HubURL: "https://hub.example.com", ClientAppID: "commerce-agent", Workspace: "inventory", SessionID: session,
		AccessToken: registry.NewSecret(accessCanary), RefreshToken: registry.NewSecret(refreshCanary),
		AccessExpiresAt:  time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
		RefreshExpiresAt: time.Date(2099, 2, 1, 0, 0, 0, 0, time.UTC),
	}
}

// wantInvalid checks the error of a bad argument: its code, that it names the
// argument, that it is safe and that it does not repeat the value.
func wantInvalid(t *testing.T, err error, argument, value string) {
	t.Helper()
	var safe *registry.Error
	if !errors.Is(err, feedback.CodeInvalidRequest) || !errors.As(err, &safe) {
		t.Errorf("error %v (%T), want a *registry.Error that matches %q", err, err, feedback.CodeInvalidRequest)
		return
	}
	if !strings.HasPrefix(err.Error(), "registry: ") || !strings.Contains(err.Error(), argument) {
		t.Errorf("error %q does not name %q", err, argument)
	}
	if len(value) > 3 && strings.Contains(err.Error(), strings.TrimSpace(value)) {
		t.Errorf("error %q repeats the value %q", err, value)
	}
}

// wantNoCanary checks that no token is in a text.
func wantNoCanary(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, "canary") || strings.Contains(text, "5d41402abc4b2a76") || strings.Contains(text, "7d793037a0760186") {
		t.Errorf("a token shows in %q", text)
	}
}
