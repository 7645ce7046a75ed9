package browsertest

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
)

var (
	browserFlag = flag.String("browser", "", "the browser to use, where it is not one of "+strings.Join(browsers, ", "))
	shotsFlag   = flag.String("screenshots", "", "a folder to leave screenshots in")
)

// browsers are the names that a Chromium goes by.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// rebound is a name of another site that resolves to this machine.
const rebound = "rebound.example"

// patience is how long anything may take before a test fails. Nothing waits for
// it to pass.
const patience = 30 * time.Second

var (
	program string          // the mock Hub
	browser context.Context // the one browser of all tests
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	fail := func(what string, err error) int {
		fmt.Fprintln(os.Stderr, what, err)
		return 1
	}
	path := *browserFlag
	for _, name := range browsers {
		if path == "" {
			path, _ = exec.LookPath(name)
		}
	}
	if path == "" {
		return fail("there is no browser:", fmt.Errorf("looked for %s", strings.Join(browsers, ", ")))
	}
	folder, err := os.MkdirTemp("", "browsertest-")
	if err != nil {
		return fail("no folder:", err)
	}
	defer os.RemoveAll(folder)
	program = filepath.Join(folder, "mockhub")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = ".."
	if output, err := build.CombinedOutput(); err != nil {
		return fail("the mock Hub cannot be built:", fmt.Errorf("%w\n%s", err, output))
	}

	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("host-resolver-rules", "MAP "+rebound+" 127.0.0.1"),
		chromedp.Flag("disable-component-update", true),
		chromedp.UserDataDir(filepath.Join(folder, "profile")),
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	ctx, stop = chromedp.NewContext(ctx)
	defer stop()
	if err := chromedp.Do(ctx); err != nil {
		return fail("the browser does not start:", err)
	}
	browser = ctx
	return m.Run()
}

// A mockHub is the program, running.
type mockHub struct {
	t    *testing.T
	url  string
	stop func()
}

func startHub(t *testing.T) mockHub { return startHubAt(t, "0") }

func startHubAt(t *testing.T, port string) mockHub {
	t.Helper()
	cmd := exec.Command(program, "--port", port)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(stop)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "A mock Hub is at "); ok {
			url, _, _ := strings.Cut(rest, ",")
			go func() {
				for lines.Scan() {
				}
			}()
			return mockHub{t, url, stop}
		}
	}
	t.Fatal("the mock Hub did not say where it is")
	return mockHub{}
}

// The session that the mock Hub's operations were sent under.
const token, workspace = "synthetic-access-alice", "catalog-agent"

// client is a host's.
func (h mockHub) client() *agentclient.BailingHubAgentClient {
	h.t.Helper()
	client, err := agentclient.New(agentclient.Config{
		HubURL: h.url, Workspace: workspace,
		TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token}),
	}, agentclient.WithMaxRetries(0))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(client.CloseIdleConnections)
	return client
}

// post sends what a host sends to act: the SDK has no code for it.
func (h mockHub) post(path, body string) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.url+"/agent-api/v1/tool-invocations"+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		h.t.Fatalf("POST %s: %d", path, response.StatusCode)
	}
}

// A tab shows a page. What its console said must be expected.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// open opens a tab of its own and waits until the page follows the Hub.
func open(t *testing.T, url string) *tab {
	t.Helper()
	b := blank(t)
	b.visit(url)
	b.until(`document.querySelector("#connection").textContent === "Following the Hub"`)
	return b
}

// blank opens an empty tab. Its console stays silent, or the test fails: there
// would be what the page's own policy stopped, and every mistake of its script.
// An answer that is an error is none.
func blank(t *testing.T) *tab { return blankOf(t, true) }

// blankOf opens an empty tab whose console may speak where it is not silent.
func blankOf(t *testing.T, silent bool) *tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(browser)
	said := chromedp.Console(ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		for m, err := range said {
			if err != nil {
				return
			}
			if silent && m.Source != "network" {
				t.Errorf("the console says: %s %s %s", m.Source, m.Type, m.Text)
			}
		}
	})
	t.Cleanup(func() {
		stop()
		listening.Wait()
	})
	return &tab{t, ctx}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) visit(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// look evaluates an expression in the page.
func look[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// until waits, frame by frame, until a condition holds in the page.
func (b *tab) until(condition string) {
	b.t.Helper()
	held := look[bool](b, `new Promise((resolve) => {
		const end = performance.now() + `+fmt.Sprint(patience.Milliseconds()/2)+`;
		const check = () => {
			let holds = false;
			try { holds = Boolean(`+condition+`); } catch { /* not there yet */ }
			if (holds || performance.now() > end) resolve(holds);
			else requestAnimationFrame(check);
		};
		check();
	})`)
	if !held {
		b.t.Fatalf("it does not come true: %s\nthe page says:\n%s", condition, look[string](b, `document.body.innerText`))
	}
}

// untilText waits until an element reads like this.
func (b *tab) untilText(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.querySelector(%s).textContent === %s`, quote(selector), quote(text)))
}

func (b *tab) text(selector string) string {
	b.t.Helper()
	return look[string](b, fmt.Sprintf(`document.querySelector(%s).textContent`, quote(selector)))
}

// click clicks with the mouse.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// press clicks a button, and waits for what the page says about it.
func (b *tab) press(selector string) string {
	b.t.Helper()
	b.hush()
	b.click(selector)
	return b.said()
}

func (b *tab) hush() {
	look[bool](b, `document.querySelector("#said").replaceChildren() === undefined`)
}

func (b *tab) said() string {
	b.t.Helper()
	b.until(`document.querySelector("#said").textContent`)
	return b.text("#said")
}

// submit sends a new operation with the page's button. The newest invocation is
// the first one: newest selects it.
func (b *tab) submit(tool string) (id string) {
	b.t.Helper()
	before := b.text(newest + " .id")
	b.press(`[data-do=submit][data-value=` + tool + `]`)
	b.until(fmt.Sprintf(`document.querySelector(%s).textContent !== %s`, quote(newest+" .id"), quote(before)))
	return b.text(newest + " .id")
}

const newest = "#invocation-list article:first-child"

// toFront shows the tab again after another one was opened.
func (b *tab) toFront() {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, page.BringToFront, cdp.Empty{}); err != nil {
		b.t.Fatal(err)
	}
}

// looksLike gives the window a size, and the person a taste.
func (b *tab) looksLike(scheme string, width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	}); err != nil {
		b.t.Fatal(err)
	}
}

// shoot leaves a screenshot, where they are wanted.
func (b *tab) shoot(name string) {
	b.t.Helper()
	if *shotsFlag == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(*shotsFlag, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}
