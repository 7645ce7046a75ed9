package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// login has a person log in.
func (p *program) login(ctx context.Context, _ []string) error {
	o := &p.options
	config := agentauth.Config{HubURL: o.hub, ClientAppID: o.client, Workspace: o.workspace, DeviceLabel: o.device, AllowInsecureHTTP: o.insecure}
	options := agentauth.LogInOptions{Alias: o.name}
	if o.port != 0 {
		options.Callback = append(options.Callback, agentauth.WithCallbackPort(o.port))
	}
	if o.replace {
		key, err := p.toReplace(ctx, config)
		if err != nil {
			return err
		}
		options.Replace = key
	}
	waiting := &waiting{program: p}
	ctx, cancel := context.WithCancel(ctx)
	options.Show = func(_ context.Context, prompt agentauth.Prompt) error { return waiting.begin(ctx, prompt) }
	made, err := agentauth.LogIn(ctx, p.dir, config, options)
	cancel()
	waiting.end()
	if err != nil {
		return err
	}
	if made.ReplacedLivesOn {
		fmt.Fprintf(p.stderr, "The session that was replaced could not be ended at the Hub. Nobody holds it; it ends by itself on %s.\n", minute(made.Replaced.EndsAt))
	}
	if o.json {
		r := result{Connection: describe(made.Connection, made.Connection.Key), Session: sessionAsJSON(made.Session)}
		if made.Replaced != nil {
			r.Replaced = made.Replaced.SessionID
		}
		return p.writeJSON(r)
	}
	fmt.Fprintf(p.out, "Logged in. The current connection is %s.\n", called(made.Connection))
	line(p.out, "hub", made.Connection.HubURL)
	line(p.out, "key", made.Connection.Key)
	writeSession(p.out, made.Session)
	return nil
}

// toReplace gives the key of the connection whose login --replace means.
func (p *program) toReplace(ctx context.Context, config agentauth.Config) (string, error) {
	if p.options.name != "" {
		switch connection, err := p.dir.ByAlias(ctx, p.options.name); {
		case err == nil:
			return connection.Key, nil
		case !errors.Is(err, registry.ErrNotFound):
			return "", err
		}
	}
	hub, err := registry.NormalizeHubURL(config.HubURL, config.AllowInsecureHTTP)
	if err != nil {
		return "", err
	}
	connections, err := p.dir.List(ctx)
	if err != nil {
		return "", err
	}
	key := ""
	for _, c := range connections {
		if c.HubURL != hub || c.ClientAppID != config.ClientAppID || c.Workspace != config.Workspace {
			continue
		}
		if key != "" {
			return "", mistake("there is more than one connection for this Hub, client app and workspace; --name says which login is replaced")
		}
		key = c.Key
	}
	return key, nil
}

// waiting is what a person sees while they are waited for.
type waiting struct {
	program *program
	tasks   sync.WaitGroup
}

// begin shows where to log in, and sees to the rest besides. The tasks end with
// the context.
func (w *waiting) begin(ctx context.Context, prompt agentauth.Prompt) error {
	p, o := w.program, &w.program.options
	var text strings.Builder
	if old := prompt.Replaces; old != nil {
		text.WriteString(screen.Paragraph("", "", replaces(old), screen.ColumnsOf(p.stderr)))
	}
	text.WriteString("Open this address in a browser, and decide there:\n\n" + prompt.URL + "\n\n")
	host, port, _ := net.SplitHostPort(prompt.CallbackAddress)
	switch {
	case o.paste:
		text.WriteString(screen.Paragraph("", "", "Once you have decided, the browser shows an address that begins with http://"+prompt.CallbackAddress+"/. If it says that it cannot open that, copy the whole address and paste it here.", screen.ColumnsOf(p.stderr)))
	case o.port != 0:
		text.WriteString(screen.Paragraph("", "", "The browser comes back to this machine at "+prompt.CallbackAddress+". If it runs on another one, forward the port from there before you decide: ssh -L "+port+":"+host+":"+port+" and this machine's name.", screen.ColumnsOf(p.stderr)))
	}
	// The address has to be readable before anything else happens.
	if _, err := io.WriteString(p.stderr, text.String()); err != nil {
		return err
	}
	if o.paste {
		go w.paste(ctx, prompt) // it ends with its input
	} else if !o.noBrowser {
		if done, err := p.browser(ctx, prompt.URL); err == nil {
			w.tasks.Go(func() { <-done })
		} else {
			fmt.Fprintf(p.stderr, "No browser was opened: %s.\n", receipt.Printable(err.Error()))
		}
	}
	w.tasks.Go(func() { w.count(ctx, prompt.ExpiresAt) })
	return nil
}

// end waits for the tasks, whose context has ended.
func (w *waiting) end() { w.tasks.Wait() }

// replaces says what a new login ends.
func replaces(old *agentauth.Replaced) string {
	what := "This login takes the place of the one that " + called(old.Connection) + " has."
	if old.SessionID == "" {
		return what + " That one is damaged, and can be used for nothing."
	}
	left := time.Until(old.EndsAt)
	if left <= 0 {
		return what + " That one is over."
	}
	return what + fmt.Sprintf(" Operations that were sent under that one could be asked about for %s more, until %s; once it is replaced they cannot. To keep it, refuse in the browser or press Ctrl-C.", days(left), minute(old.EndsAt))
}

// days gives a long time in words.
func days(d time.Duration) string {
	switch n := int(d / (24 * time.Hour)); n {
	case 0:
		return "less than a day"
	case 1:
		return "a day"
	default:
		return fmt.Sprint(n, " days")
	}
}

// count shows how long the person can still decide: every second on a terminal,
// and once elsewhere.
func (w *waiting) count(ctx context.Context, until time.Time) {
	out := w.program.stderr
	left := func() string {
		seconds := max(0, int(time.Until(until).Round(time.Second)/time.Second))
		return fmt.Sprintf("Waiting for you to decide: %d:%02d left. Ctrl-C gives up.", seconds/60, seconds%60)
	}
	if !screen.IsTerminal(out) {
		fmt.Fprintln(out, left())
		return
	}
	const back = "\r\x1b[K" // to the beginning of the line, which it empties
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		fmt.Fprint(out, back, left())
		select {
		case <-ctx.Done():
			fmt.Fprint(out, back)
			return
		case <-tick.C:
		}
	}
}

// paste takes addresses from standard input until one is that of the login.
func (w *waiting) paste(ctx context.Context, prompt agentauth.Prompt) {
	lines := bufio.NewScanner(w.program.stdin)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		err := prompt.Paste(ctx, lines.Text())
		if err == nil || ctx.Err() != nil {
			return
		}
		fmt.Fprintln(w.program.stderr, sentence(err))
	}
}
