package house_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/boundary"
)

var contributing = filepath.Join(root, ".github", "CONTRIBUTING.md")

// The map in CONTRIBUTING.md has every package, with what it is and what it
// imports of this module.
func TestMap(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- map: go test ./internal/house -update writes it -->\n", "<!-- end of the map -->\n"
	text, err := os.ReadFile(contributing)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the map", contributing)
	}
	golden(t, contributing, before+begin+drawn(t)+end+after)
}

// drawn draws the map.
func drawn(t *testing.T) string {
	t.Helper()
	synopses, imports := map[string]string{}, map[string]map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() || strings.HasPrefix(s.pkg, "examples") {
			continue
		}
		if imports[s.pkg] == nil {
			imports[s.pkg] = map[string]bool{}
		}
		if s.file.Doc != nil {
			synopsis := new(doc.Package).Synopsis(s.file.Doc.Text())
			synopses[s.pkg] = strings.TrimSuffix(strings.TrimPrefix(synopsis, "Package "+s.file.Name.Name+" "), ".")
		}
		for _, spec := range s.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if own, ok := strings.CutPrefix(imported, module+"/"); ok {
				imports[s.pkg][own] = true
			}
		}
	}
	var out strings.Builder
	for _, part := range []struct {
		title string
		has   func(string) bool
	}{
		{"To import", isImportable},
		{"Within", func(pkg string) bool { return !isImportable(pkg) }},
	} {
		fmt.Fprintf(&out, "%s:\n\n| package | what it is | what it imports of this module |\n|---|---|---|\n", part.title)
		for _, pkg := range slices.Sorted(maps.Keys(imports)) {
			if !part.has(pkg) {
				continue
			}
			if synopses[pkg] == "" {
				t.Errorf("package %s does not say what it is", pkg)
			}
			var names []string
			for _, name := range slices.Sorted(maps.Keys(imports[pkg])) {
				names = append(names, "`"+name+"`")
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", pkg, strings.ReplaceAll(synopses[pkg], "|", "\\|"), strings.Join(names, " "))
		}
		out.WriteString("\n")
	}
	return out.String()
}

// The way of one inspection is told in ten steps, and every function that they
// name is there.
func TestWayOfAnInspection(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(contributing)
	if err != nil {
		t.Fatal(err)
	}
	_, way, ok := strings.Cut(string(text), "\n## The way of one inspection\n")
	if !ok {
		t.Fatalf("%s does not tell it", contributing)
	}
	way, _, _ = strings.Cut(way, "\n## ")
	declared := map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, declaration := range s.file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok {
				name := path.Base(s.pkg) + "."
				if typ := receiverOf(function); typ != "" {
					name += typ + "."
				}
				declared[name+function.Name.Name] = true
			}
		}
	}
	steps := regexp.MustCompile(`(?m)^\d+\. .*$`).FindAllString(way, -1)
	if len(steps) != 10 {
		t.Errorf("%d steps are told", len(steps))
	}
	for _, step := range steps {
		names := regexp.MustCompile("`([a-z]+(?:\\.[A-Za-z]+)+)`").FindAllStringSubmatch(step, -1)
		if len(names) == 0 {
			t.Errorf("no function is named in %q", step)
		}
		for _, name := range names {
			if !declared[name[1]] {
				t.Errorf("there is no %s any more: %q", name[1], step)
			}
		}
	}
}

// The change log begins with the version that goes out as the user agent, and
// the links of the pages in .github lead somewhere.
func TestChangeLog(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, ".github", "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	latest := regexp.MustCompile(`(?m)^## (.*)$`).FindStringSubmatch(string(text))
	if latest == nil || !regexp.MustCompile(`^v\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)$`).MatchString(latest[1]) {
		t.Fatalf("the first heading is no version with its date: %q", latest)
	}
	version, _, _ := strings.Cut(latest[1], " ")
	if boundary.UserAgent != "bailinghub-go/"+strings.TrimPrefix(version, "v") {
		t.Errorf("the change log begins with %s, and the user agent is %s", version, boundary.UserAgent)
	}
	pages, err := filepath.Glob(filepath.Join(root, ".github", "*.md"))
	if err != nil || len(pages) != 3 {
		t.Fatalf("%v, %v", pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`).FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, ".github", filepath.FromSlash(link[1]))); err != nil {
				t.Errorf("%s: %s leads nowhere", page, link[1])
			}
		}
	}
}
