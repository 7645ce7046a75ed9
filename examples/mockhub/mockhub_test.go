package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/agentclient/hubtest"
	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
	"github.com/bailinghub/bailinghub-go/examples/internal/exampletest"
	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
	"github.com/bailinghub/bailinghub-go/examples/internal/situation"
	"github.com/bailinghub/bailinghub-go/examples/mockhub/internal/page"
	"github.com/bailinghub/bailinghub-go/registry"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// serving is the program, running within the test.
type serving struct {
	url, port string
	printed   string
	stop      func() (status int, rest string)
}

// serve runs the program on a port of its own until stop or the end of the test.
func serve(t *testing.T) serving {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		ended <- run(ctx, []string{"--port", "0"}, writer, &stderr)
		writer.Close()
	}()
	// What it prints first is one Write.
	printed := make([]byte, 64<<10)
	n, err := reader.Read(printed)
	if err != nil {
		t.Fatalf("%v; stderr %q", err, &stderr)
	}
	s := serving{printed: string(printed[:n])}
	s.url = strings.TrimSuffix(strings.Fields(s.printed)[5], ",")
	if _, s.port, err = net.SplitHostPort(strings.TrimPrefix(s.url, "http://")); err != nil {
		t.Fatal(err)
	}
	stopped := false
	s.stop = func() (int, string) {
		stopped = true
		cancel()
		rest, err := io.ReadAll(reader)
		if err != nil {
			t.Error(err)
		}
		return <-ended, string(rest)
	}
	t.Cleanup(func() {
		if !stopped {
			s.stop()
		}
		cancel()
	})
	return s
}

// Whatever somebody asks of it, a terminal gets none of it as it is.
func TestHostileWords(t *testing.T) {
	t.Parallel()
	s := serve(t)
	exampletest.CheckSafe(t, strings.ReplaceAll(s.printed, "synthetic-", ""))
	quoted, err := json.Marshal(exampletest.HostileWords)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/agent-api/v1/tool-invocations", "/agent-auth/v1/token", "/" + url.PathEscape(exampletest.HostileWords)} {
		body := fmt.Sprintf(`{"route":%s,"tool":%[1]s,"arguments":%[1]s,"grant_type":%[1]s}`, quoted)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path+"?"+url.QueryEscape(exampletest.HostileWords), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	status, rest := s.stop()
	exampletest.CheckSafe(t, rest)
	if status != cli.OK || !strings.Contains(rest, "Stopped.") {
		t.Errorf("status %d, it printed %q", status, rest)
	}
}

func TestWhatItPrints(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for line := range strings.Lines(s.printed) {
		if screen.Width(strings.TrimSuffix(line, "\n")) > screen.Columns {
			t.Errorf("too wide: %q", line)
		}
	}
	usual := strconv.Itoa(defaultPort)
	exampletest.Golden(t, "printed.txt", strings.NewReplacer(s.url, "http://127.0.0.1:"+usual, "--port "+s.port, "--port "+usual).Replace(s.printed))
	status, rest := s.stop()
	if want := "\nStopped. It was asked for 0 receipts. Business operations: 6 when it started, 6 at the end.\n"; status != cli.OK || rest != want {
		t.Errorf("status %d, at the end %q", status, rest)
	}
}

// commands gives the lines for a shell, each whole.
func commands(printed string) (all []string) {
	joined := strings.ReplaceAll(printed, "\\\n", "")
	for line := range strings.Lines(joined) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			all = append(all, strings.TrimSpace(command))
		}
	}
	return all
}

// TestPrintedRequests sends what the printed curl commands would.
func TestPrintedRequests(t *testing.T) {
	t.Parallel()
	s := serve(t)
	environment := map[string]string{}
	var answers []string
	for _, command := range commands(s.printed) {
		if assignment, ok := strings.CutPrefix(command, "export "); ok {
			name, value, _ := strings.Cut(assignment, "=")
			environment[name] = value
			continue
		}
		words := words(t, command, environment)
		if words[0] != "curl" {
			continue
		}
		method, url, body := http.MethodGet, "", ""
		header := http.Header{}
		for i := 1; i < len(words); i++ {
			switch words[i] {
			case "-sS":
			case "-w":
				i++
			case "-H":
				i++
				name, value, _ := strings.Cut(words[i], ": ")
				header.Set(name, value)
			case "-X":
				i++
				method = words[i]
			case "-d":
				i++
				body = words[i]
			default:
				url = words[i]
			}
		}
		request, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = header
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("%s\n%d %s %v", command, response.StatusCode, text, err)
		}
		answers = append(answers, string(text))
	}
	checkAnswers(t, answers)
	if _, rest := s.stop(); !strings.Contains(rest, "asked for 1 receipts. Business operations: 6 when it started, 8 at the end.") {
		t.Errorf("at the end %q", rest)
	}
}

// checkAnswers checks what the printed curl commands give, in their order.
func checkAnswers(t *testing.T, answers []string) {
	t.Helper()
	want := []string{`"read_only":true`, `"status":"approved"`, `"state":"executed"`, `"state":"executed"`}
	if len(answers) != len(want) {
		t.Fatalf("%d answers: %q", len(answers), answers)
	}
	for i, part := range want {
		if !strings.Contains(answers[i], part) {
			t.Errorf("answer %d does not have %s: %s", i+1, part, answers[i])
		}
	}
}

// words takes a command apart as a shell does, as far as the printed ones go.
func words(t *testing.T, command string, environment map[string]string) (all []string) {
	t.Helper()
	for command != "" {
		var word string
		switch quote := command[0]; quote {
		case ' ':
			command = command[1:]
			continue
		case '\'', '"':
			var whole bool
			if word, command, whole = strings.Cut(command[1:], string(quote)); !whole {
				t.Fatal("a quote without an end")
			}
			if quote == '"' {
				word = os.Expand(word, func(name string) string { return environment[name] })
			}
		default:
			word, command, _ = strings.Cut(command, " ")
		}
		all = append(all, word)
	}
	return all
}

func TestOtherSessions(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for token, want := range map[string]int{token: 200, otherToken: 404, revokedToken: 401} {
		request, err := http.NewRequest(http.MethodGet, s.url+"/agent-api/v1/tool-invocations/"+situation.Read.InvocationID()+"/receipt", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d, want %d", token, response.StatusCode, want)
		}
	}
}

func TestOnlyThisMachineAndNoWebPage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	own := "127.0.0.1:" + s.port
	local := "localhost:" + s.port
	for _, test := range []struct {
		name, host string
		header     http.Header
		refused    bool
	}{
		{"a program", own, nil, false},
		{"a program, by name", local, nil, false},
		{"by name in capitals", "LOCALHOST:" + s.port, nil, false},
		{"an address that was typed", own, http.Header{"Sec-Fetch-Site": {"none"}}, false},
		{"a page of its own", own, http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://" + own}}, false},
		{"a page of its own, by name", local, http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://" + local}}, false},

		{"rebinding", "evil.example:" + s.port, nil, true},
		{"rebinding, as the same origin", "evil.example:" + s.port, http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://evil.example:" + s.port}}, true},
		{"another port", "127.0.0.1:1", nil, true},
		{"no port", "127.0.0.1", nil, true},
		{"no host", "", nil, true},
		{"a host below", "localhost.evil.example:" + s.port, nil, true},
		{"a dot", "localhost.:" + s.port, nil, true},
		{"another loopback", "127.0.0.2:" + s.port, nil, true},
		{"IPv6", "[::1]:" + s.port, nil, true},
		{"another site", own, http.Header{"Sec-Fetch-Site": {"cross-site"}}, true},
		{"another port of this site", own, http.Header{"Sec-Fetch-Site": {"same-site"}}, true},
		{"a value that is none", own, http.Header{"Sec-Fetch-Site": {""}}, true},
		{"two values", own, http.Header{"Sec-Fetch-Site": {"none", "cross-site"}}, true},
		{"another origin", own, http.Header{"Origin": {"https://evil.example"}}, true},
		{"another origin that begins alike", own, http.Header{"Origin": {"http://" + own + ".evil.example"}}, true},
		{"the origin of its other name", own, http.Header{"Origin": {"http://" + local}}, true},
		{"the origin over TLS", own, http.Header{"Origin": {"https://" + own}}, true},
		{"an origin that is hidden", own, http.Header{"Origin": {"null"}}, true},
		{"an empty origin", own, http.Header{"Origin": {""}}, true},
		{"two origins", own, http.Header{"Origin": {"http://" + own, "http://evil.example"}}, true},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions, http.MethodHead} {
			for _, path := range []string{"/", "/agent-api/v1/tool-invocations/inspection-capabilities", "/agent-auth/v1/token", "/elsewhere", "/mockhub/page.js", "/mockhub/do/pause"} {
				response, body := request(t, own, method, path, test.host, test.header)
				if refused := response.StatusCode == http.StatusForbidden; refused != test.refused {
					t.Errorf("%s: %s %s: %d", test.name, method, path, response.StatusCode)
				}
				for name := range response.Header {
					if strings.HasPrefix(name, "Access-Control-") {
						t.Errorf("%s: the answer has %s", test.name, name)
					}
				}
				if strings.Contains(body, "evil") {
					t.Errorf("%s: the answer repeats the request: %q", test.name, body)
				}
			}
		}
	}
}

// request sends one request as it stands, whatever net/http thinks of it.
func request(t *testing.T, address, method, path, host string, header http.Header) (*http.Response, string) {
	t.Helper()
	var raw bytes.Buffer
	raw.WriteString(method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\nContent-Length: 0\r\n")
	for name, values := range header {
		for _, value := range values {
			raw.WriteString(name + ": " + value + "\r\n")
		}
	}
	raw.WriteString("\r\n")
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := connection.Write(raw.Bytes()); err != nil {
		t.Fatal(err)
	}
	sent, err := http.NewRequest(method, "http://"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), sent)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func TestRefusedRequestsDoNothing(t *testing.T) {
	t.Parallel()
	hub := hubtest.New()
	defer hub.Close()
	g := guard{port: 80, next: hub}
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "127.0.0.1:80": true, "evil.example": false} {
		r, err := http.NewRequest(http.MethodPost, "http://"+host+"/agent-api/v1/tool-invocations", nil)
		if err != nil {
			t.Fatal(err)
		}
		before := hub.Requests().Total()
		g.ServeHTTP(discard{}, r)
		if reached := hub.Requests().Total() > before; reached != want {
			t.Errorf("%s: reached the Hub: %t", host, reached)
		}
	}
}

// Another site neither presses a button of the page nor reads what it shows.
func TestOtherSitesAndThePage(t *testing.T) {
	t.Parallel()
	w, err := seed()
	if err != nil {
		t.Fatal(err)
	}
	defer w.hub.Close()
	g := guard{port: 80, next: page.New(w.hub, w.sessions...)}
	for _, test := range []struct {
		name, host string
		header     map[string]string
		own        bool
	}{
		{"itself", "localhost", map[string]string{"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}, true},
		{"a program", "127.0.0.1", nil, true},
		{"another site", "localhost", map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}, false},
		{"another site, in an old browser", "localhost", map[string]string{"Origin": "http://evil.example"}, false},
		{"another site, in a form", "localhost", map[string]string{"Origin": "null"}, false},
		{"another port", "localhost", map[string]string{"Origin": "http://localhost:8080", "Sec-Fetch-Site": "same-site"}, false},
		{"another site that reads", "localhost", map[string]string{"Sec-Fetch-Site": "cross-site"}, false},
		{"rebinding", "evil.example", map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, false},
	} {
		send := func(method, path, body string) *httptest.ResponseRecorder {
			ctx, leave := context.WithCancel(t.Context())
			leave() // after one event
			r := httptest.NewRequestWithContext(ctx, method, "http://"+test.host+path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			for name, value := range test.header {
				r.Header.Set(name, value)
			}
			answer := httptest.NewRecorder()
			g.ServeHTTP(answer, r)
			return answer
		}
		w.hub.SetPaused(false)
		if pressed := send(http.MethodPost, "/mockhub/do/pause", `{"value":"on"}`); w.hub.Paused() != test.own || (pressed.Code == http.StatusOK) != test.own {
			t.Errorf("%s: a button: %d", test.name, pressed.Code)
		}
		for _, path := range []string{"/", "/mockhub/page.js", "/mockhub/events"} {
			read := send(http.MethodGet, path, "")
			if (read.Code == http.StatusOK) != test.own || !test.own && strings.Contains(read.Body.String(), "product") {
				t.Errorf("%s: %s: %d", test.name, path, read.Code)
			}
		}
	}
}

// The page on which a person agrees to a login may be opened from anywhere, in a
// tab, and everything else about it is its own business.
func TestOpeningTheConsentPage(t *testing.T) {
	t.Parallel()
	w, err := seed()
	if err != nil {
		t.Fatal(err)
	}
	defer w.hub.Close()
	g := guard{port: 80, next: front{consent: w.consent("http://127.0.0.1:80"), page: page.New(w.hub, w.sessions...)}}
	tab := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
	with := func(name, value string) map[string]string {
		changed := maps.Clone(tab)
		changed[name] = value
		return changed
	}
	for _, test := range []struct {
		name, method, host, path string
		header                   map[string]string
		status                   int
	}{
		{"a tab", "GET", "127.0.0.1", consentPath, tab, 404}, // there is no such login
		{"a typed address", "GET", "127.0.0.1", consentPath, with("Sec-Fetch-Site", "none"), 404},
		{"a frame", "GET", "127.0.0.1", consentPath, with("Sec-Fetch-Dest", "iframe"), 403},
		{"a fetch", "GET", "127.0.0.1", consentPath, with("Sec-Fetch-Mode", "no-cors"), 403},
		{"a form", "POST", "127.0.0.1", consentPath, tab, 403},
		{"another page", "GET", "127.0.0.1", "/", tab, 403},
		{"rebinding", "GET", "evil.example", consentPath, tab, 403},
	} {
		r := httptest.NewRequestWithContext(t.Context(), test.method, "http://"+test.host+test.path, nil)
		for name, value := range test.header {
			r.Header.Set(name, value)
		}
		answer := httptest.NewRecorder()
		if g.ServeHTTP(answer, r); answer.Code != test.status {
			t.Errorf("%s: %d, want %d", test.name, answer.Code, test.status)
		}
	}
	if requests := w.hub.Requests(); requests.Total() != 0 {
		t.Errorf("the Hub was asked: %+v", requests)
	}
}

type discard struct{}

func (discard) Header() http.Header            { return http.Header{} }
func (discard) Write(text []byte) (int, error) { return len(text), nil }
func (discard) WriteHeader(int)                {}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--nope"}, "there is no flag --nope"},
		{[]string{"x"}, "it takes no argument"},
		{[]string{"--port", "65536"}, "--port must be a number"},
		{[]string{"--port", "-1"}, "--port must be a number"},
		{[]string{"--port", "many"}, "--port has a value"},
		{[]string{"--port"}, "--port needs a value"},
		{[]string{"--login", "--port", "0"}, "--login takes the port"},
		{[]string{"--login=maybe"}, "--login has a value"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), test.args, &stdout, &stderr); status != cli.Usage || stdout.Len() > 0 ||
			!strings.Contains(stderr.String(), test.want) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%q: status %d, stdout %q, stderr %q", test.args, status, &stdout, &stderr)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"--help"}, &stdout, &stderr); status != cli.OK || stderr.Len() > 0 || !strings.Contains(stdout.String(), "--port N") {
		t.Errorf("status %d, stdout %q, stderr %q", status, &stdout, &stderr)
	}
}

func TestPortIsTaken(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), []string{"--port", s.port}, &stdout, &stderr)
	if status != cli.Failed || stdout.Len() > 0 || !strings.Contains(stderr.String(), "port "+s.port+" of 127.0.0.1 cannot be had") {
		t.Errorf("status %d, stdout %q, stderr %q", status, &stdout, &stderr)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"--port", "81", "--login"}, &stdout, &stderr); status != cli.OK || stderr.Len() > 0 {
		t.Fatalf("status %d, stderr %q", status, &stderr)
	}
	login, err := registry.DecodeCredentials(stdout.Bytes())
	if err != nil || login.HubURL != "http://127.0.0.1:81" || login.AccessToken.Reveal() != token {
		t.Errorf("%+v, %v", login, err)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestCannotPrint(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--port", "0"}, {"--login"}} {
		var stderr bytes.Buffer
		if status := run(t.Context(), args, fullDisk{}, &stderr); status != cli.Failed || !strings.Contains(stderr.String(), "cannot be printed") {
			t.Errorf("%q: status %d, stderr %q", args, status, &stderr)
		}
	}
}
