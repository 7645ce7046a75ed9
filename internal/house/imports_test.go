package house_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport says what the importable packages may import: of this module, of
// others, and whether they may know HTTP. Imports point only downwards.
var mayImport = map[string]struct {
	own    []string
	others []string
	http   bool
}{
	"feedback":                       {},
	"internal/failures":              {own: []string{"feedback"}},
	"receipt":                        {own: []string{"feedback"}, others: []string{"github.com/go-json-experiment/json"}},
	"registry":                       {own: []string{"feedback"}, others: []string{"github.com/go-json-experiment/json", "golang.org/x/sys"}},
	"registry/sqlstore":              {own: []string{"feedback", "registry"}},
	"registry/registrytest":          {own: []string{"feedback", "registry"}},
	"agentclient":                    {own: []string{"feedback", "receipt"}, others: []string{"github.com/go-json-experiment/json", "golang.org/x/oauth2"}, http: true},
	"internal/inspection":            {own: []string{"feedback", "receipt"}, others: []string{"github.com/go-json-experiment/json", "golang.org/x/oauth2"}, http: true},
	"agentclient/hermesx":            {own: []string{"feedback", "receipt", "agentclient"}, others: []string{"github.com/go-json-experiment/json", "golang.org/x/oauth2"}, http: true},
	"agentclient/hermesx/hermestest": {http: true},
	"agentclient/hubtest":            {own: []string{"registry"}, http: true},
	"agentclient/agentauth":          {own: []string{"feedback", "registry", "agentclient", "host"}, others: []string{"github.com/go-json-experiment/json", "golang.org/x/oauth2"}, http: true}, // it renews stored logins as host does
	"host":                           {own: []string{"feedback", "receipt", "registry", "agentclient"}, others: []string{"golang.org/x/oauth2"}, http: true},
	"host/journal":                   {own: []string{"feedback", "host"}, others: []string{"github.com/go-json-experiment/json"}},
	"host/journal/sqljournal":        {own: []string{"feedback", "host", "host/journal", "registry/sqlstore"}},
	"host/journal/journaltest":       {own: []string{"feedback", "receipt", "registry", "host", "host/journal"}},
}

// lowest are the internal packages: they import each other and nothing above.
var lowest = []string{"github.com/go-json-experiment/json", "github.com/hashicorp/go-retryablehttp", "golang.org/x/net/idna", "golang.org/x/sys"}

func TestImportsPointDownwards(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() || strings.HasPrefix(s.pkg, "examples") {
			continue
		}
		seen[s.pkg] = true
		internal := strings.HasPrefix(s.pkg, "internal/")
		rule, known := mayImport[s.pkg]
		if !known && !internal {
			t.Errorf("package %s: say in this test what it may import", s.pkg)
			continue
		}
		for _, spec := range s.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			own, isOwn := strings.CutPrefix(imported, module+"/")
			domain, _, _ := strings.Cut(imported, "/")
			var ok bool
			switch {
			case isOwn && strings.HasPrefix(own, "internal/"):
				ok = true
			case isOwn:
				ok = slices.Contains(rule.own, own)
			case imported == "net/http" || strings.HasPrefix(imported, "net/http/"):
				ok = internal || rule.http
			case strings.Contains(domain, "."):
				others := rule.others
				if internal && !known {
					others = lowest
				}
				ok = slices.ContainsFunc(others, func(other string) bool { return imported == other || strings.HasPrefix(imported, other+"/") })
			default:
				ok = true // of the standard library
			}
			if !ok {
				t.Errorf("%s/%s imports %s", s.pkg, s.name, imported)
			}
		}
	}
	for pkg := range mayImport {
		if !seen[pkg] {
			t.Errorf("package %s is not there", pkg)
		}
	}
}

// feedback, receipt and registry know no HTTP, not through others either.
func TestWhoKnowsNoHTTP(t *testing.T) {
	t.Parallel()
	imports := map[string][]string{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, spec := range s.file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			imports[s.pkg] = append(imports[s.pkg], strings.TrimPrefix(imported, module+"/"))
		}
	}
	var reaches func(pkg string) bool
	reaches = func(pkg string) bool {
		return pkg == "net/http" || slices.ContainsFunc(imports[pkg], reaches)
	}
	for _, pkg := range []string{"feedback", "receipt", "registry"} {
		if reaches(pkg) {
			t.Errorf("package %s knows HTTP", pkg)
		}
	}
	if !reaches("host") {
		t.Error("this test sees nothing")
	}
}
