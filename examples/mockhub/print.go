package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/folder"
	"github.com/bailinghub/bailinghub-go/examples/internal/situation"
	"github.com/bailinghub/bailinghub-go/registry"
)

// tokenVariable is what the printed commands keep the token in.
const tokenVariable = "MOCKHUB_TOKEN"

// print says what is there and how to ask for it. The lines that begin with
// four spaces are for a POSIX shell, in the folder of the module.
func (w *world) print(to io.Writer, url string) error {
	var b bytes.Buffer
	say := func(lines ...string) {
		for _, line := range lines {
			b.WriteString(line + "\n")
		}
	}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	curl := `    curl -sS -w '\n' -H "Authorization: Bearer $` + tokenVariable + `" `

	say(
		"A mock Hub is at "+url+", for this machine only. Ctrl-C stops it.",
		"Open that address in a browser: a page shows all that happens, and has a button for each situation.",
		"",
		"OPERATIONS, all sent by one session to the workspace "+hubtest.DefaultRoute,
		"",
	)
	var ids []string
	for _, operation := range w.operations {
		ids = append(ids, operation.InvocationID())
		say("  "+operation.InvocationID()+"  "+operation.Tool, "  "+operation.Story, "")
	}
	say(
		"FIRST, into a shell: the session's token, which is synthetic and always the same, and the address",
		"",
		"    export "+tokenVariable+"="+token,
		"    export MOCKHUB="+url+"/agent-api/v1/tool-invocations",
		"",
		"ASK, as often as you like: it makes nothing happen",
		"",
		"    go run ./examples/inspect --hub "+url+` \`,
		"        --token-env "+tokenVariable+" --workspace "+hubtest.DefaultRoute+` \`,
		"        "+strings.Join(ids, " \\\n        "),
		"",
		curl+`"$MOCKHUB/inspection-capabilities"`,
		"",
		curl+`\`,
		`        "$MOCKHUB/`+situation.Approved.InvocationID()+`/receipt"`,
		"",
		"ACT, which is something else: resume the operation that was approved, and send a new one",
		"",
		curl+`-X POST \`,
		`        "$MOCKHUB/`+situation.Approved.InvocationID()+`/resume"`,
		"",
		curl+`-X POST \`,
		`        -H "Content-Type: application/json" \`,
		fmt.Sprintf(`        -d '{"route":"%s","tool":"%s"}' "$MOCKHUB"`, hubtest.DefaultRoute, hubtest.WriteTool),
		"",
		"LOG IN, as a person does: it shows an address, where Dora agrees or refuses; then look, and log out",
		"",
		"    export "+folder.Consent+"=true",
		"    go run ./examples/connections login --registry mockhub-logins --hub "+url+` \`,
		"        --client "+hubtest.DefaultClient+" --workspace "+hubtest.DefaultRoute+" --name mock",
		"",
		"    go run ./examples/connections status --registry mockhub-logins",
		"    go run ./examples/connections logout mock --registry mockhub-logins",
		"",
		"RUN A HOST, which sends operations of its own, and later asks what became of them",
		"",
		"    go run ./examples/mockhub --port "+port+` --login | \`,
		"        go run ./examples/agenthost send --file agenthost.jsonl",
		"",
		"    go run ./examples/mockhub --port "+port+` --login | \`,
		"        go run ./examples/agenthost report --file agenthost.jsonl",
		"",
		"ASK AS SOMEBODY ELSE: a session that sent none of these, and one that was revoked",
		"",
		"    export "+tokenVariable+"="+otherToken,
		"    export "+tokenVariable+"="+revokedToken,
	)
	_, err := to.Write(b.Bytes())
	return err
}

// printLogin prints the login of the session that sent the operations.
func printLogin(to io.Writer, url string) error {
	now := time.Now()
	login, err := registry.EncodeCredentials(registry.Credentials{
		HubURL:           url,
		ClientAppID:      hubtest.DefaultClient,
		Workspace:        hubtest.DefaultRoute,
		SessionID:        sessionID("alice"),
		AccessToken:      registry.NewSecret(token),
		RefreshToken:     registry.NewSecret(refreshToken("alice")),
		AccessExpiresAt:  now.Add(aLongTime),
		RefreshExpiresAt: now.Add(2 * aLongTime),
	})
	if err != nil {
		return err
	}
	_, err = to.Write(login)
	return err
}
