package browsertest

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// A person approves while a host asks ten times: nothing is performed. Then
// somebody resumes, and one operation is.
func TestAskingPerformsNothing(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	host := hub.client()
	id := b.submit("product_publish")
	b.untilText(newest+" .progress", "awaiting_approval")
	b.press(newest + ` [data-do=approve]`)
	b.untilText(newest+" .progress", "approved_not_dispatched")

	for range 10 {
		observed, err := host.InspectInvocation(t.Context(), id)
		if err != nil || observed.Progress() != receipt.ProgressApprovedNotDispatched {
			t.Fatal(observed, err)
		}
	}
	b.untilText("#inspections", "10")
	b.untilText("#negotiations", "10")
	b.until(`document.querySelector("` + newest + ` .asked").textContent.startsWith("asked 10×, last at ")`)
	if sentence := b.text(newest + " .sentence"); sentence != "The operation is approved, and by the evidence it has not been dispatched; approval alone does not carry it out." {
		t.Errorf("it says %q", sentence)
	}
	if performed := b.text("#performed"); performed != "0" {
		t.Errorf("asking performed %s operations", performed)
	}
	if marks := b.marks(newest); marks != "done done open open open" {
		t.Errorf("the timeline shows %s", marks)
	}

	b.press(newest + ` [data-do=resume]`)
	b.untilText(newest+" .progress", "executed")
	b.untilText("#performed", "1")
	b.untilText(newest+" .sentence", "The operation was executed.")
	if marks := b.marks(newest); marks != "done done done done done" {
		t.Errorf("the timeline shows %s", marks)
	}
	if inspections := b.text("#inspections"); inspections != "10" {
		t.Errorf("the page inspected: %s", inspections)
	}
}

func (b *tab) marks(card string) string {
	b.t.Helper()
	return look[string](b, fmt.Sprintf(`[...document.querySelectorAll(%s)].map((s) => s.dataset.mark).join(" ")`, quote(card+" .timeline li")))
}

func TestHangingIsInFlight(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	b.press(`[data-value=hangs]`)
	b.untilText("#conditions li", "The business system hangs: what is dispatched stays in flight.")
	for button, want := range map[string]string{"finish": "executed", "refuse": "business_rejected", "lose": "unresolved"} {
		b.submit("product_update")
		b.untilText(newest+" .progress", "in_flight")
		if marks := b.marks(newest); marks != "done none done busy unknown" {
			t.Errorf("the timeline shows %s", marks)
		}
		if sentence := b.text(newest + " .sentence"); sentence != receipt.ProgressInFlight.Sentence() {
			t.Errorf("it says %q", sentence)
		}
		b.press(newest + ` [data-do=` + button + `]`)
		b.untilText(newest+" .progress", want)
	}
	b.untilText("#performed", "3")
}

func TestOutcomes(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	for system, want := range map[string]string{"rejects": "business_rejected", "loses": "unresolved", "executes": "executed"} {
		b.press(`[data-value=` + system + `]`)
		b.submit("product_update")
		b.untilText(newest+" .progress", want)
		b.submit("product_list")
		b.untilText(newest+" .progress", want)
	}
	b.submit("product_publish")
	b.press(newest + ` [data-do=deny]`)
	b.untilText(newest+" .progress", "denied")
	b.untilText("#performed", "6")
}

func TestDamageIsAFailureInWords(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	host := hub.client()
	for value, want := range map[string]feedback.Code{
		"approval": feedback.CodeInvocationRecordInvalid, "marker": feedback.CodeInvocationNotFound, "identity": feedback.CodeInvocationConflict, "run": feedback.CodeAgentRunConflict,
	} {
		id := b.submit("product_update")
		b.click(newest + ` .damage summary`)
		b.press(newest + ` [data-value=` + value + `]`)
		b.untilText(newest+" .progress", string(want))
		_, err := host.InspectInvocation(t.Context(), id)
		failure, ok := errors.AsType[*feedback.Error](err)
		if !ok || failure.Feedback.Code != want {
			t.Fatal(err)
		}
		if sentence := b.text(newest + " .sentence"); sentence != failure.Feedback.Message || !strings.Contains(sentence, "does not prove that the operation did not happen") {
			t.Errorf("%s: it says %q", value, sentence)
		}
		if marks := b.marks(newest); marks != "done unknown unknown unknown unknown" {
			t.Errorf("%s: the timeline shows %s", value, marks)
		}
		if heading := b.text(newest + " h4"); heading != "No receipt now" {
			t.Errorf("%s: %q", value, heading)
		}
	}
}

func TestOldHubIsUnsupported(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	host := hub.client()
	id := b.submit("product_update")
	for _, contract := range []string{"old", "page", "newer"} {
		b.press(`[data-do=contract][data-value=` + contract + `]`)
		b.until(`[...document.querySelectorAll("article .progress")].every((p) => p.textContent === "agent_schema_unsupported")`)
		if facts := b.text(newest + " dl"); !strings.Contains(facts, "categoryunsupported") || !strings.Contains(facts, "next_actioncheck_compatibility") {
			t.Errorf("%s: %s", contract, facts)
		}
		if _, err := host.InspectInvocation(t.Context(), id); !errors.Is(err, feedback.CodeAgentSchemaUnsupported) {
			t.Errorf("%s: a host is told %v", contract, err)
		}
	}
	b.press(`[data-do=contract][data-value=v1]`)
	b.untilText(newest+" .progress", "executed")
}

func TestTextsStayText(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	b.press(`[data-value=hostile]`)
	elements := look[int](b, `document.querySelectorAll("img, b, script, iframe").length`)
	b.submit("product_list")
	b.untilText(newest+" .progress", "executed")
	b.click(newest + " .answer summary")
	want := `<img src=x onerror="alert(1)"><b>done</b> \u202egnp.exe\u202c \u009b2J\u200b\r\nThe operation was denied.\u2028{"forged":true}`
	b.until(fmt.Sprintf(`[...document.querySelectorAll(%s)].some((dd) => dd.textContent === %s)`, quote(newest+" dd"), quote(want)))
	if n := look[int](b, `document.querySelectorAll("img, b, script, iframe").length`); n != elements {
		t.Errorf("the text made %d elements", n-elements)
	}
	if bad := look[string](b, `(document.body.textContent.match(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/) ?? [""])[0]`); bad != "" {
		t.Errorf("the page has %q", bad)
	}
	answer := look[string](b, `JSON.parse(document.querySelector("`+newest+` pre").textContent).result.text`)
	if receipt.Printable(answer) != want {
		t.Errorf("the answer's text is %q", answer)
	}
	if look[bool](b, `window.innerWidth < document.documentElement.scrollWidth`) {
		t.Error("the text makes the page wider than the window")
	}
}

func TestLog(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	host := hub.client()
	if empty := b.text("#quiet"); empty != "Nobody has asked yet." || b.text("#log") != "" {
		t.Errorf("%q", empty)
	}
	id := b.submit("product_update")
	if _, err := host.InspectInvocation(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b.press(`[data-do=drop][data-value=request]`)
	b.untilText("#conditions li", "1 connection is going to be lost before the Hub sees the request.")
	if _, err := host.InspectInvocation(t.Context(), id); !errors.Is(err, feedback.CodeAgentTransportUnavailable) {
		t.Errorf("a host is told %v", err)
	}
	hub.post("", `{"route":"catalog-agent","tool":"product_list"}`)
	b.until(`document.querySelectorAll("#log tr").length === 4`)
	b.until(`document.querySelectorAll("#conditions li").length === 0`)
	rows := look[[]string](b, `[...document.querySelectorAll("#log tr")].map((r) => [...r.cells].slice(1).map((c) => c.textContent).join(" "))`)
	want := []string{
		"POST /agent-api/v1/tool-invocations 200 alice",
		"GET /agent-api/v1/tool-invocations/inspection-capabilities lost –",
		"GET /agent-api/v1/tool-invocations/" + id + "/receipt 200 alice",
		"GET /agent-api/v1/tool-invocations/inspection-capabilities 200 alice",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the log is\n%s", strings.Join(rows, "\n"))
	}
	if text := look[string](b, `document.documentElement.outerHTML`); strings.Contains(text, "synthetic-") {
		t.Error("the page shows a token")
	}
}

func TestSessions(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	host := hub.client()
	id := b.submit("product_update")
	alice := `#session-list li:first-child`
	told := func(want error) {
		t.Helper()
		if _, err := host.InspectInvocation(t.Context(), id); !errors.Is(err, want) {
			t.Errorf("a host is told %v", err)
		}
	}
	told(nil)
	b.press(alice + ` [data-do=expire]`)
	b.untilText(alice+" .state", "access token expired")
	told(feedback.CodeAgentAuthorizationUnavailable)
	b.press(alice + ` [data-do=restore]`)
	b.untilText(alice+" .state", "in force")
	told(nil)
	b.press(alice + ` [data-do=revoke]`)
	b.untilText(alice+" .state", "revoked")
	b.untilText(newest+" .progress", "agent_authorization_unavailable")
	told(feedback.CodeAgentAuthorizationUnavailable)
	if said := b.press(`[data-do=submit][data-value=product_update]`); !strings.Contains(said, "401 Unauthorized") {
		t.Errorf("it says %q", said)
	}
}

func TestPauseAndAsk(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	b.submit("product_publish")
	b.press(newest + ` [data-do=approve]`)
	b.press(`[data-do=pause]`)
	b.untilText("#conditions li", "The Hub is paused: it takes no operation and resumes none. Inspecting goes on.")
	b.until(`document.querySelector("[data-do=pause]").getAttribute("aria-pressed") === "true"`)
	b.until(`document.querySelector("` + newest + ` [data-do=resume]")`)
	if said := b.press(newest + ` [data-do=resume]`); !strings.Contains(said, "503 Service Unavailable, hub_paused") {
		t.Errorf("it says %q", said)
	}
	if said := b.press(newest + ` [data-do=ask]`); said != "A host that asks is told: "+receipt.ProgressApprovedNotDispatched.Sentence() {
		t.Errorf("it says %q", said)
	}
	b.untilText("#inspections", "1")
	b.press(`[data-do=pause]`)
	b.until(`document.querySelector("[data-do=pause]").getAttribute("aria-pressed") === "false"`)
	b.press(newest + ` [data-do=resume]`)
	b.untilText("#performed", "1")
}

// The page is a fifth of a second behind the Hub, plus what the browser takes.
func TestFollowsWithinASecond(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	host := hub.client()
	id := b.submit("product_update")
	var delays []time.Duration
	for n := range 5 {
		start := time.Now()
		if _, err := host.InspectInvocation(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		b.untilText("#inspections", fmt.Sprint(n+1))
		delays = append(delays, time.Since(start))
	}
	// One may meet a busy machine.
	slices.Sort(delays)
	t.Log(delays)
	if median := delays[len(delays)/2]; median > time.Second {
		t.Errorf("it is %v behind", median)
	}
}

func TestReloadShowsTheSame(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	b.press(`[data-value=hangs]`)
	b.press(`[data-value="1000"]`)
	b.press(`[data-do=drop][data-value=answer]`)
	id := b.submit("product_publish")
	b.press(newest + ` [data-do=approve]`)
	b.untilText(newest+" .progress", "approved_not_dispatched")
	b.until(`document.querySelectorAll("#conditions li").length === 3`)
	const main = `document.querySelector("main").innerText + [...document.querySelectorAll("[aria-pressed=true]")].map((b) => b.textContent)`
	before := look[string](b, main)
	b.do(chromedp.Reload())
	b.until(`document.querySelectorAll("article").length > 0`)
	if after := look[string](b, main); after != before || !strings.Contains(after, id) {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// A Hub that goes away leaves a page that says so, and another one in its place
// is not mistaken for it.
func TestHubGoesAndComes(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	b.submit("product_update")
	b.press(newest + ` [data-do=ask]`)
	b.until(`document.querySelectorAll("#log tr").length === 2`)
	at, err := url.Parse(hub.url)
	if err != nil {
		t.Fatal(err)
	}
	hub.stop()
	b.untilText("#connection", "The mock Hub does not answer. What you see is what was.")
	if said := b.press(newest + ` [data-do=ask]`); said != "The mock Hub does not answer." {
		t.Errorf("it says %q", said)
	}
	startHubAt(t, at.Port())
	b.untilText("#connection", "Following the Hub")
	b.until(`document.querySelectorAll("article").length === 8`)
	b.untilText("#inspections", "0")
	if log := b.text("#log"); log != "" {
		t.Errorf("the log has %s", log)
	}
}

// A tab that nobody sees gives its connection back.
func TestHiddenTabFollowsNothing(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	host := hub.client()
	id := b.submit("product_update")
	hide := func(hidden bool) {
		look[bool](b, fmt.Sprintf(`Object.defineProperty(document, "hidden", { configurable: true, value: %t }) && document.dispatchEvent(new Event("visibilitychange"))`, hidden))
	}
	hide(true)
	if _, err := host.InspectInvocation(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	other := open(t, hub.url)
	other.untilText("#inspections", "1")
	if inspections := b.text("#inspections"); inspections != "0" {
		t.Errorf("the hidden tab shows %s inspections", inspections)
	}
	b.toFront()
	hide(false)
	b.untilText("#inspections", "1")
}
