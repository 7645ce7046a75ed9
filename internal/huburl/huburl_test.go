package huburl_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/huburl"
)

func TestNormalize(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		// Scheme and host.
		"HTTPS://Hub.Example.COM":                   "https://hub.example.com",
		"https://hub.example.com.":                  "https://hub.example.com.",
		"https://hub_example.com":                   "https://hub_example.com",
		"https://-hub-.example--x.com":              "https://-hub-.example--x.com",
		"https://ab--cd.com":                        "https://ab--cd.com",
		"https://hub":                               "https://hub",
		"https://x0":                                "https://x0",
		"https://0xg":                               "https://0xg",
		"https://1.2.3.4x":                          "https://1.2.3.4x",
		"https://1.2.3.0x4.com":                     "https://1.2.3.0x4.com",
		"https://中枢.example.com":                    "https://xn--fiq933d.example.com",
		"https://XN--FIQ933D.example.com":           "https://xn--fiq933d.example.com",
		"https://-中枢-_x.example.com":                "https://xn----_x-0f5fk26k.example.com",
		"https://hub．example。com":                   "https://hub.example.com",
		"https://ＨＵＢ.example.com":                   "https://hub.example.com",
		"https://hub\u00adx.example.com":            "https://hubx.example.com",
		"https://faß.de":                            "https://xn--fa-hia.de",
		"https://\u212aelvin.com":                   "https://kelvin.com",
		"http://ｌｏｃａｌｈｏｓｔ":                          "http://localhost",
		"http://LocalHost:80":                       "http://localhost",
		"http://localhost:443":                      "http://localhost:443",
		"http://127.0.0.1":                          "http://127.0.0.1",
		"http://１２７.0.0.1":                          "http://127.0.0.1",
		"http://[0:0:0:0:0:0:0:1]":                  "http://[::1]",
		"https://192.0.2.1":                         "https://192.0.2.1",
		"https://[2001:DB8:0:0:1:0:0:1]":            "https://[2001:db8::1:0:0:1]",
		"https://[2001:db8:0:1:1:1:1:1]":            "https://[2001:db8:0:1:1:1:1:1]",
		"https://[::ffff:127.0.0.1]":                "https://[::ffff:7f00:1]",
		"https://[::FFFF:7F00:0001]":                "https://[::ffff:7f00:1]",
		"https://[::ffff:0.0.0.0]":                  "https://[::ffff:0:0]",
		"https://[::1.2.3.4]":                       "https://[::102:304]",
		"https://[::]":                              "https://[::]",
		"https://[1:2:3:4:5:6:7::]":                 "https://[1:2:3:4:5:6:7:0]",
		"https://hub.example.com:":                  "https://hub.example.com",
		"https://hub.example.com:443":               "https://hub.example.com",
		"https://hub.example.com:0000443/":          "https://hub.example.com",
		"https://hub.example.com:08443":             "https://hub.example.com:8443",
		"https://hub.example.com:80":                "https://hub.example.com:80",
		"https://hub.example.com:65535":             "https://hub.example.com:65535",
		"https://[2001:db8::1]:":                    "https://[2001:db8::1]",
		"https://[2001:db8::1]:443/":                "https://[2001:db8::1]",
		"https://hub.example.com:8443///":           "https://hub.example.com:8443",
		"https://hub.example.com/a/b//":             "https://hub.example.com/a/b",
		"https://hub.example.com//a//b":             "https://hub.example.com//a//b",
		"https://hub.example.com/%7Ehub":            "https://hub.example.com/%7Ehub",
		"https://hub.example.com/~hub":              "https://hub.example.com/~hub",
		"https://hub.example.com/%2f%2F":            "https://hub.example.com/%2f%2F",
		"https://hub.example.com/A.B/...":           "https://hub.example.com/A.B/...",
		"https://hub.example.com/.a/..b":            "https://hub.example.com/.a/..b",
		"https://hub.example.com/%2e%2e%2e":         "https://hub.example.com/%2e%2e%2e",
		"https://hub.example.com/%E4%B8%AD":         "https://hub.example.com/%E4%B8%AD",
		"https://hub.example.com/a@b:c":             "https://hub.example.com/a@b:c",
		"https://hub.example.com/!$&'()*+,;=[]-._~": "https://hub.example.com/!$&'()*+,;=[]-._~",
	} {
		got, err := huburl.Normalize(raw, false)
		if err != nil || got != want {
			t.Errorf("Normalize(%q) = %q, %v; want %q", raw, got, err, want)
		}
	}
}

func TestNormalizeRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rule string
		raws []string
	}{
		{"must not be empty", []string{""}},
		{"8192 bytes", []string{"https://hub.example.com/" + strings.Repeat("a", huburl.MaxLen), "https://" + strings.Repeat("中.", 2040) + "中"}},
		{"UTF-8", []string{"https://hub\xff.example.com", "https://hub.example.com/\xc0\xaf"}},
		{"control character", []string{"https://hub.example.com\n", "\thttps://hub.example.com", "https://hub.exa\x00mple.com", "https://hub.example.com/\x7f", "https://hub.example.com/\u0085", "https://hub\r.example.com"}},
		{"begin or end with a space", []string{" https://hub.example.com", "https://hub.example.com ", "https://hub.example.com\u00a0", "https://hub.example.com\ufeff", "\u3000https://hub.example.com", "https://hub.example.com/a\u2028"}},
		{"backslash", []string{`https:\\hub.example.com`, `https://hub.example.com\`, `https://hub.example.com/a\b`}},
		{"query", []string{"https://hub.example.com?", "https://hub.example.com/?", "https://hub.example.com?x=1"}},
		{"fragment", []string{"https://hub.example.com#", "https://hub.example.com/#top"}},
		{"must be absolute", []string{"hub.example.com", "//hub.example.com", "/hub", "https:hub.example.com", "https:/hub.example.com", "ftp://hub.example.com", "javascript://hub.example.com", "://hub", "httpſ://hub.example.com", "ｈttps://hub.example.com"}},
		{"https: http goes only to", []string{"http://hub.example.com", "http://127.0.0.2", "http://localhost.", "http://a.localhost", "http://[::ffff:127.0.0.1]", "http://[::2]", "http://0.0.0.0", "http://localhost.localdomain"}},
		{"user information", []string{"https://u:p@hub.example.com", "https://@hub.example.com", "https://:@hub.example.com", "https://u@", "https://a@b@hub.example.com"}},
		{"must have a host", []string{"https://", "https:///hub.example.com", "https://:443", "https:////"}},
		{"letters, digits", []string{
			"https://hub example.com", "https://hub%2eexample.com", "https://hub..example.com", "https://.hub.example.com", "https://.", "https://hub.example.com..",
			"https://a\uff0fb.com", "https://a\uff20b.com", "https://a\uff1ab.com", "https://a\uff1fb.com", "https://a\uff03b.com", "https://a\uff3cb.com", "https://a\uff05b.com",
			"https://a\u2100b.com", "https://中\uff0fb.com", "https://中<.com", "https://hub|.com", "https://hub<.com", "https://xn--.com", "https://hub。。com", "https://a\u3000b.com", "https://*.example.com",
		}},
		{"internationalized", []string{"https://\u2488example.com", "https://xn--hub-.com", "https://xn--a.com", "https://xn--中.com", "https://\u200d中.com", "https://a\u05d0.com", "https://XN--A.com", "https://hub.xn--", "https://hub.xn--\u00ad", "https://xn--中a0-", "https://ｘn--中a0-", "https://x\u00adn--中a0-"}},
		{"numeric host", []string{
			"https://0x7f.1", "https://127.1", "https://2130706433", "https://1.2.3.4.", "https://0X7F.0.0.1", "https://127.0.0.01", "https://256.0.0.1", "https://1.2.3.4.5",
			"https://hub.example.123", "https://hub.0x1f", "https://hub.0x", "https://0", "https://0x", "https://hub.09", "https://１２７.１", "https://０ｘ７ｆ.1", "https://hub.１.", "https://⑫⑦.1",
		}},
		{"IPv6 address", []string{"https://[", "https://[]", "https://[::1", "https://[::1]x", "https://[::1]443", "https://[1.2.3.4]", "https://[::g]", "https://[v1.x]", "https://[1:2:3:4:5:6:7:8:9]", "https://[::1.2.3]", "https://[::ffff:01.2.3.4]", "https://[[::1]]"}},
		{"IPv6 zone", []string{"https://[fe80::1%25eth0]", "https://[fe80::1%eth0]", "https://[::1%]"}},
		{"must have a port", []string{"https://hub.example.com:99999", "https://hub.example.com:65536", "https://hub.example.com:-1", "https://hub.example.com:+1", "https://hub.example.com:0x50", "https://hub.example.com:4 43", "https://hub.example.com:４４３", "https://a:b:c", "https://hub.example.com:18446744073709551617"}},
		{"sent as it stands", []string{"https://hub.example.com/a b", "https://hub.example.com/a|b", "https://hub.example.com/中", `https://hub.example.com/"`, "https://hub.example.com/<", "https://hub.example.com/^", "https://hub.example.com/`", "https://hub.example.com/{}"}},
		{"percent escape", []string{"https://hub.example.com/%", "https://hub.example.com/%2", "https://hub.example.com/%zz", "https://hub.example.com/a%2", "https://hub.example.com/%2/e", "https://hub.example.com/%%32e"}},
		{"dot segment", []string{
			"https://hub.example.com/.", "https://hub.example.com/..", "https://hub.example.com/a/./b", "https://hub.example.com/a/../b", "https://hub.example.com/a/..//",
			"https://hub.example.com/%2e", "https://hub.example.com/%2E%2e/x", "https://hub.example.com/.%2e", "https://hub.example.com/%2E.", "https://hub.example.com//%2e//",
		}},
	}
	for _, test := range tests {
		for _, raw := range test.raws {
			got, err := huburl.Normalize(raw, false)
			if err == nil {
				t.Errorf("Normalize(%q) = %q, want a refusal", raw, got)
				continue
			}
			if got != "" || !strings.Contains(err.Error(), test.rule) {
				t.Errorf("Normalize(%q) = %q, %v; want the rule %q", raw, got, err, test.rule)
			}
		}
	}
}

func TestNormalizeAllowsInsecureHTTP(t *testing.T) {
	t.Parallel()
	got, err := huburl.Normalize("HTTP://Hub.Internal:80/x/", true)
	if want := "http://hub.internal/x"; err != nil || got != want {
		t.Errorf("Normalize = %q, %v; want %q", got, err, want)
	}
	if got, err := huburl.Normalize("ftp://hub.internal", true); err == nil {
		t.Errorf("Normalize of an ftp URL = %q, want a refusal", got)
	}
}

func FuzzNormalize(f *testing.F) {
	for _, raw := range []string{
		"https://hub.example.com/bailing/", "HTTP://LOCALHOST:080", "https://[::ffff:1.2.3.4]:443//a", "https://中枢。example.com/%7e", "https://0x7f.1",
		"https://xn--fiq933d", "https://a\uff0fb", "https://h/a%2Eb/..", "https://u@h", "http://hub:0/;x=[1]",
	} {
		f.Add(raw, true)
		f.Add(raw, false)
	}
	f.Fuzz(func(t *testing.T, raw string, insecure bool) {
		normal, err := huburl.Normalize(raw, insecure)
		if err != nil {
			if normal != "" {
				t.Fatalf("Normalize(%q) = %q beside an error", raw, normal)
			}
			return
		}
		if again, err := huburl.Normalize(normal, insecure); err != nil || again != normal {
			t.Fatalf("normal form %q of %q becomes %q, %v", normal, raw, again, err)
		}
		const endpoint = "/agent-api/v1/x"
		request, err := http.NewRequest(http.MethodGet, normal+endpoint, nil)
		if err != nil {
			t.Fatalf("net/http does not take %q: %v", normal, err)
		}
		parsed := request.URL
		scheme, rest, _ := strings.Cut(normal, "://")
		host, path, found := strings.Cut(rest, "/")
		if found {
			path = "/" + path
		}
		if parsed.User != nil || parsed.Scheme != scheme || parsed.Host != host || parsed.EscapedPath() != path+endpoint || parsed.RawQuery != "" || parsed.Fragment != "" || parsed.Opaque != "" {
			t.Fatalf("net/url takes %q apart as %#v", normal, parsed)
		}
		if got := (&url.URL{Scheme: "x", Host: "x", Path: parsed.Path, RawPath: parsed.RawPath}).EscapedPath(); got != path+endpoint {
			t.Fatalf("path of %q is sent as %q", normal, got)
		}
		if address, err := netip.ParseAddr(parsed.Hostname()); err == nil && address.Zone() != "" {
			t.Fatalf("%q has a zone", normal)
		}
		if scheme == "http" && !insecure {
			switch parsed.Hostname() {
			case "localhost", "127.0.0.1", "::1":
			default:
				t.Fatalf("plain http to %q", normal)
			}
		}
	})
}

func BenchmarkNormalize(b *testing.B) {
	for b.Loop() {
		if _, err := huburl.Normalize("https://hub.example.com:8443/bailing", false); err != nil {
			b.Fatal(err)
		}
	}
}
