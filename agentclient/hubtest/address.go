package hubtest

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
)

// This file reads and writes the addresses of a login as the Hub's URL parser does.

var loopbackForm = regexp.MustCompile(`^(?i:http)://(?:127\.0\.0\.1|\[::1\]):([0-9]{1,5})(?:[/?#]|$)`)

const maxAddress = 2048 // UTF-16 code units

// isLoopback reports whether an address begins with http, a literal loopback
// address and a port.
func isLoopback(address string) bool {
	m := loopbackForm.FindStringSubmatch(address)
	if m == nil {
		return false
	}
	port, _ := strconv.Atoi(m[1])
	return port >= 1 && port <= 65535
}

// parseAddress parses an absolute address without a user and a fragment.
func parseAddress(address string) (*url.URL, bool) {
	// A WHATWG URL parser removes these characters anywhere in a URL.
	address = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(address)
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Fragment != "" || u.User != nil && u.User.String() != "" {
		return nil, false
	}
	return u, true
}

// isRedirectURI reports whether the Hub accepts this as a callback address.
func isRedirectURI(address string) bool {
	_, ok := parseAddress(address)
	return ok && isLoopback(address) && length(address) <= maxAddress
}

// isAuthorizeURL reports whether the Hub accepts this as the page of a business system.
func isAuthorizeURL(address string) bool {
	u, ok := parseAddress(address)
	return ok && (u.Scheme == "https" || isLoopback(address))
}

// length counts as the Hub does.
func length(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// pageURL is the address that a person opens, empty where the Hub can make none.
func pageURL(base, authorizationID string) string {
	if !isAuthorizeURL(base) || length(base) > maxAddress {
		return ""
	}
	return withQuery(base, func(q query) query { return q.set("authorization_id", authorizationID) })
}

// callbackURL is the address that the browser is sent to. What the client app
// put into the query stays, but for what the Hub says there.
func callbackURL(base, name, value, state string) string {
	return withQuery(base, func(q query) query {
		return q.without("code").without("error").set(name, value).set("state", state)
	})
}

// withQuery writes an address in its normal form, with a query that was edited.
func withQuery(address string, edit func(query) query) string {
	u, ok := parseAddress(address)
	if !ok {
		return address // never happens for an address that the Hub has accepted
	}
	u.Scheme, u.Host, u.User = strings.ToLower(u.Scheme), strings.ToLower(u.Host), nil
	if port := u.Port(); port != "" {
		host := strings.TrimSuffix(u.Host, ":"+port)
		number, _ := strconv.Atoi(port)
		if u.Host = host; u.Scheme == "http" && number != 80 || u.Scheme == "https" && number != 443 {
			u.Host += ":" + strconv.Itoa(number)
		}
	}
	path := resolveDots(u.EscapedPath())
	fragment := ""
	if strings.HasSuffix(address, "#") {
		fragment = "#"
	}
	return u.Scheme + "://" + u.Host + path + "?" + edit(parseQuery(u.RawQuery)).String() + fragment
}

// A query is the form of a URL's query that keeps its order.
type query []field

type field struct{ name, value string }

func parseQuery(raw string) query {
	var q query
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		q = append(q, field{unescape(name), unescape(value)})
	}
	return q
}

func (q query) without(name string) query {
	var out query
	for _, f := range q {
		if f.name != name {
			out = append(out, f)
		}
	}
	return out
}

// set puts a value in the place of the first of that name, or at the end.
func (q query) set(name, value string) query {
	var out query
	done := false
	for _, f := range q {
		switch {
		case f.name != name:
			out = append(out, f)
		case !done:
			out, done = append(out, field{name, value}), true
		}
	}
	if !done {
		out = append(out, field{name, value})
	}
	return out
}

func (q query) String() string {
	var parts []string
	for _, f := range q {
		parts = append(parts, escape(f.name)+"="+escape(f.value))
	}
	return strings.Join(parts, "&")
}

// escape writes a word of a form as the web does, which net/url does not quite.
func escape(s string) string {
	return strings.NewReplacer("~", "%7E", "%2A", "*").Replace(url.QueryEscape(s))
}

// unescape reads a word of a form; what is no escape stands for itself.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		if s[i] == '+' {
			b.WriteByte(' ')
			continue
		}
		b.WriteByte(s[i])
	}
	return strings.ToValidUTF8(b.String(), "\ufffd")
}
