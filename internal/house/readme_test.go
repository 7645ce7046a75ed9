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

// The story that the README tells is what examples/agenthost prints: each of its
// lines stands there, in this order.
func TestREADMETellsTheStory(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	printed, err := os.ReadFile(filepath.Join(root, "examples", "agenthost", "testdata", "story.txt"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(readme), "```text\n")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("there is no story")
	}
	rest := string(printed)
	for line := range strings.Lines(block) {
		_, after, found := strings.Cut(rest, "\n"+line)
		if !found {
			t.Errorf("it is not in the story, or not there: %q", line)
			continue
		}
		rest = "\n" + after
	}
}

// One block of the README is a whole program: examples/start.
func TestREADMEHasAWholeProgram(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(root, "examples", "start", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(program), "\npackage main\n")
	if !strings.Contains(string(readme), "```go\npackage main\n"+code+"```") {
		t.Error("the README does not have examples/start as it is")
	}
}
