// Package huburl checks the URL of a Hub and brings it into its normal form.
package huburl

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/bailinghub/bailinghub-go/internal/identifier"
)

// MaxLen is the greatest length of a Hub URL in bytes, as given and in its
// normal form.
const MaxLen = 8192

// The errors of the rules. Each continues a sentence that begins with "the URL".
var (
	errEmpty      = errors.New("must not be empty")
	errLength     = errors.New("must not be longer than 8192 bytes")
	errUTF8       = errors.New("must be valid UTF-8")
	errControl    = errors.New("must not contain a control character")
	errSpace      = errors.New("must not begin or end with a space")
	errBackslash  = errors.New("must not contain a backslash")
	errQuery      = errors.New("must not have a query")
	errFragment   = errors.New("must not have a fragment")
	errAbsolute   = errors.New("must be absolute, beginning with https:// (or http:// where that is allowed)")
	errInsecure   = errors.New("must be https: http goes only to localhost, 127.0.0.1 and [::1], or where insecure HTTP is explicitly allowed")
	errUserInfo   = errors.New("must not carry user information")
	errNoHost     = errors.New("must have a host")
	errHost       = errors.New("must have a host of letters, digits, hyphens, underscores and dots, with no empty label")
	errHostName   = errors.New("must have a host that is valid as an internationalized domain name")
	errNumeric    = errors.New("must not have a numeric host other than a canonical dotted IPv4 address")
	errIPv6       = errors.New("must have a valid IPv6 address between the brackets")
	errZone       = errors.New("must not have an IPv6 zone")
	errPort       = errors.New("must have a port between 0 and 65535")
	errPath       = errors.New("must have a path that can be sent as it stands, without spaces, non-ASCII or other characters that need escaping")
	errEscape     = errors.New("must not have a broken percent escape in its path")
	errDotSegment = errors.New("must not have a dot segment in its path")
)

// Normalize gives the normal form of a Hub URL: scheme and host in lower case
// and ASCII, an IPv6 address in canonical text, no default port, no trailing
// slash, the path prefix byte for byte. The normal form of a normal form is
// itself, and net/http sends its path, and that of any endpoint appended to
// it, unchanged.
//
// The error continues a sentence that begins with "the URL", such as "must not
// have a query". It never repeats a part of the URL.
func Normalize(raw string, allowInsecureHTTP bool) (string, error) {
	if err := readable(raw); err != nil {
		return "", err
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = lowerASCII(scheme)
	if !ok || scheme != "https" && scheme != "http" {
		return "", errAbsolute
	}
	authority, path := rest, ""
	if slash := strings.IndexByte(rest, '/'); slash >= 0 {
		authority, path = rest[:slash], rest[slash:]
	}
	host, port, err := splitAuthority(authority)
	if err != nil {
		return "", err
	}
	if host, err = normalHost(host); err != nil {
		return "", err
	}
	if port, err = normalPort(port, scheme); err != nil {
		return "", err
	}
	if err := checkPath(path); err != nil {
		return "", err
	}
	if scheme == "http" && !allowInsecureHTTP && host != "localhost" && host != "127.0.0.1" && host != "[::1]" {
		return "", errInsecure
	}
	normal := scheme + "://" + host + port + strings.TrimRight(path, "/")
	if len(normal) > MaxLen {
		return "", errLength
	}
	return normal, nil
}

// readable refuses characters that no part of a Hub URL may have.
func readable(raw string) error {
	switch {
	case raw == "":
		return errEmpty
	case len(raw) > MaxLen:
		return errLength
	case !utf8.ValidString(raw):
		return errUTF8
	}
	for _, r := range raw {
		switch {
		case r < 0x20 || r >= 0x7f && r <= 0x9f:
			return errControl
		case r == '\\':
			return errBackslash
		case r == '?':
			return errQuery
		case r == '#':
			return errFragment
		}
	}
	if identifier.SpaceAtEnd(raw) {
		return errSpace
	}
	return nil
}

// splitAuthority gives the host as written, an IPv6 address in its brackets,
// and the port without its colon.
func splitAuthority(authority string) (host, port string, err error) {
	if strings.Contains(authority, "@") {
		return "", "", errUserInfo
	}
	if strings.HasPrefix(authority, "[") {
		end := strings.IndexByte(authority, ']')
		if end < 0 {
			return "", "", errIPv6
		}
		host, port = authority[:end+1], authority[end+1:]
		if port != "" && port[0] != ':' {
			return "", "", errIPv6
		}
		return host, strings.TrimPrefix(port, ":"), nil
	}
	host, port, _ = strings.Cut(authority, ":")
	if host == "" {
		return "", "", errNoHost
	}
	return host, port, nil
}

func normalHost(host string) (string, error) {
	if host[0] == '[' {
		return normalIPv6(host[1 : len(host)-1])
	}
	host, err := toASCII(host)
	if err != nil {
		return "", err
	}
	// The host is checked after the mapping too, because the mapping turns some
	// characters, such as U+FF0F, into separators of a URL.
	name := strings.TrimSuffix(host, ".")
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || strings.IndexFunc(label, notOfLabel) >= 0 {
			return "", errHost
		}
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if number(last) {
		if address, err := netip.ParseAddr(host); err != nil || address.String() != host {
			return "", errNumeric
		}
	}
	return host, nil
}

// profile maps domain names as WHATWG URL does: hyphens and underscores may
// stand anywhere, and the resolver, not this package, checks the length.
var profile = idna.New(
	idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.CheckJoiners(true),
	idna.CheckHyphens(false), idna.StrictDomainName(false), idna.VerifyDNSLength(false),
)

// toASCII maps a host as WHATWG URL does, save that it refuses percent
// escapes.
func toASCII(host string) (string, error) {
	lower := lowerASCII(host)
	if isASCII(lower) && !strings.HasPrefix(lower, "xn--") && !strings.Contains(lower, ".xn--") {
		// There is nothing to map, and the rules of IDNA, on hyphens and
		// underscores for example, do not apply to such a host.
		return lower, nil
	}
	mapped, err := profile.ToASCII(lower)
	if err != nil {
		return "", errHostName
	}
	if again, err := profile.ToASCII(mapped); err != nil || again != mapped {
		return "", errHostName
	}
	if last, _ := utf8.DecodeLastRuneInString(host); strings.HasSuffix(mapped, ".") && !dot(last) {
		// The last label decodes to an empty one, as "xn--" does.
		return "", errHostName
	}
	for label := range strings.FieldsFuncSeq(lower, dot) {
		// A label that begins with "xn--" only after it was mapped has to be
		// refused, but the library decodes it. With a letter in front, the library
		// maps the label without decoding it, and the prefix shows.
		if unicode, _ := profile.ToUnicode("a" + label); !isASCII(label) && strings.HasPrefix(unicode, "axn--") {
			return "", errHostName
		}
	}
	return mapped, nil
}

func normalIPv6(text string) (string, error) {
	address, err := netip.ParseAddr(text)
	switch {
	case strings.Contains(text, "%"):
		return "", errZone
	case err != nil || !address.Is6():
		return "", errIPv6
	case address.Is4In6():
		// netip writes the last 32 bits of a mapped address as IPv4; URLs write
		// them in hexadecimal.
		b := address.As16()
		return "[::ffff:" +
			strconv.FormatUint(uint64(b[12])<<8|uint64(b[13]), 16) + ":" +
			strconv.FormatUint(uint64(b[14])<<8|uint64(b[15]), 16) + "]", nil
	}
	return "[" + address.String() + "]", nil
}

// normalPort gives the port with its colon; "" for none and for the default.
func normalPort(port, scheme string) (string, error) {
	if port == "" {
		return "", nil
	}
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return "", errPort
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil:
		return "", errPort
	case scheme == "https" && n == 443, scheme == "http" && n == 80:
		return "", nil
	}
	return ":" + strconv.FormatUint(n, 10), nil
}

// checkPath refuses a path that net/url would escape differently, or that a
// server could read as another path.
func checkPath(path string) error {
	for i := range len(path) {
		if c := path[i]; c == '%' {
			if len(path)-i < 3 || !hex(path[i+1]) || !hex(path[i+2]) {
				return errEscape
			}
		} else if !ofPath(c) {
			return errPath
		}
	}
	for segment := range strings.SplitSeq(path, "/") {
		if len(segment) > len("%2e%2e") {
			continue
		}
		switch strings.ReplaceAll(lowerASCII(segment), "%2e", ".") {
		case ".", "..":
			return errDotSegment
		}
	}
	return nil
}

// ofPath reports whether both net/url and WHATWG URL leave c as it is in a path.
// checkPath checks "%" separately.
func ofPath(c byte) bool {
	return alphanumeric(c) || strings.IndexByte("/-._~!$&'()*+,;=:@[]", c) >= 0
}

// notOfLabel reports whether a label of a host, in ASCII and lower case, must not
// contain r.
func notOfLabel(r rune) bool {
	return r >= utf8.RuneSelf || r != '-' && r != '_' && !alphanumeric(byte(r))
}

// number reports whether a last label makes WHATWG URL read the whole host as
// an IPv4 address: decimal digits only, or 0x and hexadecimal digits, if any.
func number(label string) bool {
	if digits, ok := strings.CutPrefix(label, "0x"); ok {
		for i := range len(digits) {
			if !hex(digits[i]) {
				return false
			}
		}
		return true
	}
	for i := range len(label) {
		if label[i] < '0' || label[i] > '9' {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

func hex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// dot reports whether r separates labels.
func dot(r rune) bool { return r == '.' || r == '\u3002' || r == '\uff0e' || r == '\uff61' }

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// lowerASCII changes the letters A to Z only; the mapping of IDNA decides about
// all other letters.
func lowerASCII(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if 'A' <= b[i] && b[i] <= 'Z' {
					b[i] |= 0x20
				}
			}
			return string(b)
		}
	}
	return s
}
