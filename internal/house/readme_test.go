package house_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// Every Go snippet of the README stands, line for line, in a file that the
// compiler sees.
func TestREADMESnippetsAreCompiled(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var compiled strings.Builder
	for _, s := range sources(t) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(s.pkg), s.name))
		if err != nil {
			t.Fatal(err)
		}
		compiled.WriteString(unindented(string(text)))
	}
	blocks := goBlock.FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 3 {
		t.Fatalf("%d snippets were found", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(compiled.String(), unindented(block[1])) {
			t.Errorf("no compiled file has this snippet:\n%s", block[1])
		}
	}
}

// unindented drops what differs between a snippet and the code it stands in.
func unindented(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines.WriteString(line + "\n")
		}
	}
	return lines.String()
}

// Links of the README to files of this repository lead somewhere.
func TestREADMELinks(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`).FindAllStringSubmatch(string(readme), -1) {
		if strings.Contains(link[1], "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(link[1]))); err != nil {
			t.Errorf("%s leads nowhere", link[1])
		}
	}
}
