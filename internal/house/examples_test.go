package house_test

import (
	"go/ast"
	"strings"
	"testing"
)

// Every example is tried with hostile words from outside, and with an output
// that cannot be written.
func TestEveryExampleIsTriedWithHostileWords(t *testing.T) {
	t.Parallel()
	tests := map[string]map[string]bool{} // of a program
	for _, s := range sources(t) {
		if !strings.HasPrefix(s.pkg, "examples/") || s.file.Name.Name != "main" {
			continue
		}
		if tests[s.pkg] == nil {
			tests[s.pkg] = map[string]bool{}
		}
		for _, declaration := range s.file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil {
				tests[s.pkg][function.Name.Name] = true
			}
		}
	}
	if len(tests) < 5 {
		t.Errorf("only %d programs were found", len(tests))
	}
	for program, has := range tests {
		for _, name := range []string{"TestHostileWords", "TestOutputThatCannotBeWritten"} {
			if !has[name] {
				t.Errorf("%s has no %s", program, name)
			}
		}
	}
}
