package browsertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tabTo presses Tab until an element has the focus.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 200 {
		b.do(chromedp.KeyEvent(kb.Tab))
		if look[bool](b, fmt.Sprintf(`document.activeElement.matches(%s)`, quote(selector))) {
			return
		}
	}
	b.t.Fatalf("Tab does not lead to %s", selector)
}

// keyed presses a key on what has the focus, and waits for what is said.
func (b *tab) keyed(key string) string {
	b.t.Helper()
	b.hush()
	b.do(chromedp.KeyEvent(key))
	return b.said()
}

// Everything can be done with the keyboard alone, and the focus is never lost.
func TestKeyboard(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	b.do(chromedp.KeyEvent(kb.Tab))
	if first := look[string](b, `document.activeElement.textContent`); first != "Skip to the invocations" {
		t.Errorf("the first stop is %q", first)
	}
	b.tabTo(`[data-value=product_publish]`)
	b.keyed(kb.Enter)
	b.until(`document.querySelectorAll("article").length === 9`)
	b.tabTo(newest + ` [data-do=approve]`)
	b.keyed(" ")
	b.untilText(newest+" .progress", "approved_not_dispatched")
	// The button is gone. The focus is on its card, and the next stop is in it.
	b.until(`document.activeElement === document.querySelector("` + newest + `")`)
	b.do(chromedp.KeyEvent(kb.Tab))
	if next := look[string](b, `document.activeElement.textContent`); next != "Resume" {
		t.Errorf("the next stop is %q", next)
	}
	b.keyed(kb.Enter)
	b.untilText("#performed", "1")
	b.tabTo(newest + " .damage summary")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.tabTo(newest + " [data-value=marker]")
	b.keyed(kb.Enter)
	b.untilText(newest+" .progress", "invocation_not_found")
	b.tabTo(newest + " .answer summary")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.tabTo(newest + " pre")
	if open := look[bool](b, `document.querySelector("`+newest+` .answer").open`); !open {
		t.Error("the answer is not open")
	}
}

// Updates leave alone what a person is at: focus, scrolling, what is open, what
// is selected.
func TestUpdatesDisturbNobody(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	b.looksLike("light", 1280, 700)
	host := hub.client()
	id := b.submit("product_update")
	const third = "#invocation-list article:nth-child(3)"
	b.click(third + " .answer summary")
	b.click(third + " .damage summary")
	look[bool](b, `getSelection().selectAllChildren(document.querySelector("`+third+` pre")) === undefined`)
	look[bool](b, `document.querySelector("`+third+` [data-value=run]").focus() === undefined`)
	look[bool](b, `scrollTo(0, 700) === undefined`)
	b.until(`scrollY === 700`)
	const at = `[document.activeElement.getBoundingClientRect().top, document.activeElement.dataset.value, document.activeElement.closest("article").ariaLabel,
		[...document.querySelectorAll("details[open]")].length, getSelection().toString()].join("\n")`
	before := look[string](b, at)
	for range 5 {
		if _, err := host.InspectInvocation(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	b.untilText("#inspections", "5")
	if after := look[string](b, at); after != before || !strings.Contains(after, "observed_at") {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	// A new card on top does not take the focus either.
	hub.post("", `{"route":"catalog-agent","tool":"product_list"}`)
	b.until(`document.querySelectorAll("article").length === 10`)
	if focus := look[string](b, `document.activeElement.dataset.value`); focus != "run" {
		t.Errorf("the focus is on %q", focus)
	}
}

// node is a part of what a screen reader reads.
type node struct{ role, name string }

func (b *tab) heard() (all []node) {
	b.t.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		b.t.Fatal(err)
	}
	text := func(v *accessibility.Value) (text string) {
		if v != nil && json.Unmarshal(v.Value, &text) != nil {
			return string(v.Value)
		}
		return text
	}
	for _, n := range tree.Nodes {
		if !n.Ignored {
			all = append(all, node{text(n.Role), text(n.Name)})
		}
	}
	return all
}

func TestScreenReader(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	b.submit("product_publish")
	b.press(newest + " [data-do=ask]")
	b.until(`document.querySelectorAll("#log tr").length === 2`)
	all := b.heard()
	for _, want := range []node{
		{"banner", ""}, {"main", ""},
		{"region", "Counters"}, {"region", "Make it happen"}, {"region", "Sessions"}, {"region", "Invocations"}, {"region", "Requests"},
		{"group", "New operation"}, {"group", "On dispatch, the business system…"}, {"group", "The Hub is…"}, {"group", "The network…"},
		{"combobox", "sent by"}, {"columnheader", "Path"}, {"cell", "alice"}, {"heading", "Make it happen"},
	} {
		if !slices.Contains(all, want) {
			t.Errorf("there is no %s %q", want.role, want.name)
		}
	}
	seen := map[node]bool{}
	for _, n := range all {
		switch n.role {
		case "button", "article":
			if n.name == "" || seen[n] {
				t.Errorf("the %s %q has no name of its own", n.role, n.name)
			}
			seen[n] = true
		}
	}
	// What a button did and what became of an invocation is said, politely.
	for _, id := range []string{"said", "connection", "news"} {
		if live := look[string](b, `(({ ariaLive, role }) => ariaLive ?? role)(document.getElementById("`+id+`"))`); live != "polite" && live != "status" {
			t.Errorf("%s is %q", id, live)
		}
	}
	b.press(newest + " [data-do=approve]")
	b.until(`document.querySelector("#news").textContent.includes("The operation is approved, and by the evidence it has not been dispatched")`)
}

// unreadable gives the texts whose contrast is below that of WCAG 2, level AA.
const unreadable = `(() => {
	const channel = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
	const parse = (color) => color.match(/[\d.]+/g).map(Number);
	const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const color = parse(getComputedStyle(e).backgroundColor);
			if (color.length === 3 || color[3] === 1) return color;
		}
		return [255, 255, 255];
	};
	const bad = [];
	for (const e of document.querySelectorAll("body *")) {
		const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
		if (!own || !e.checkVisibility()) continue;
		const style = getComputedStyle(e);
		const [a, b] = [light(parse(style.color)), light(behind(e))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
		if (ratio < (large ? 3 : 4.5)) bad.push(ratio.toFixed(2) + " " + e.textContent.slice(0, 40));
	}
	return bad;
})()`

// The states of the issue, narrow and wide, light and dark: readable, and no
// wider than the window.
func TestLooks(t *testing.T) {
	hub := startHub(t)
	b := open(t, hub.url)
	b.looksLike("light", 1280, 960)
	looks := func(name string) {
		t.Helper()
		for scheme, widths := range map[string][]int64{"light": {320, 360, 768, 1280, 1920}, "dark": {360, 1280}} {
			for _, width := range widths {
				b.looksLike(scheme, width, 960)
				if bad := look[[]string](b, unreadable); len(bad) > 0 {
					t.Errorf("%s, %s, %d: too little contrast: %q", name, scheme, width, bad)
				}
				if wide := look[int64](b, `document.documentElement.scrollWidth`); wide > width {
					t.Errorf("%s, %s: %d wide in a window of %d", name, scheme, wide, width)
				}
				if width == 360 || width == 1280 {
					look[bool](b, `scrollTo(0, 0) === undefined`)
					b.shoot(fmt.Sprintf("%s-%s-%d", name, scheme, width))
				}
			}
		}
		b.looksLike("light", 1280, 960)
	}
	looks("start")
	id := b.submit("product_publish")
	b.press(newest + " [data-do=approve]")
	host := hub.client()
	for range 10 {
		if _, err := host.InspectInvocation(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	b.untilText("#inspections", "10")
	b.hush()
	looks("approved")
	b.press(newest + " [data-do=resume]")
	b.untilText(newest+" .progress", "executed")
	looks("executed")
	b.press(`[data-value=hangs]`)
	b.submit("product_update")
	looks("hanging")
	b.press(`[data-value=hostile]`)
	b.submit("product_list")
	b.click(newest + " .answer summary")
	b.click(newest + " .damage summary")
	looks("hostile")
	b.press(newest + " [data-value=approval]")
	b.untilText(newest+" .progress", "invocation_record_invalid")
	looks("damaged")
	b.press(`[data-do=contract][data-value=old]`)
	b.press(`[data-do=pause]`)
	b.press(`[data-do=drop][data-value=request]`)
	b.press(`#session-list li:first-child [data-do=expire]`)
	b.until(`document.querySelectorAll("#conditions li").length === 4`)
	looks("old")
	hub.stop()
	b.until(`document.body.classList.contains("stale")`)
	b.hush()
	looks("gone")
}
