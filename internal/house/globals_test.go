//lint:file-ignore SA1019 the resolution of names within one file is all that is wanted here

package house_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// The importable packages and what they are made of have no init, no package
// variable that changes, and read no environment.
func TestNoHiddenState(t *testing.T) {
	t.Parallel()
	all := sources(t)
	globals := map[string][]string{} // of each package
	for _, s := range all {
		for _, declaration := range s.file.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok && general.Tok == token.VAR && !s.isTest() {
				for _, spec := range general.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						if name.Name == "_" {
							continue
						}
						globals[s.pkg] = append(globals[s.pkg], name.Name)
					}
				}
			}
		}
	}
	for _, s := range all {
		if s.isTest() || strings.HasPrefix(s.pkg, "examples") || s.pkg == "internal/childtest" {
			continue
		}
		for _, declaration := range s.file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			if function.Recv == nil && function.Name.Name == "init" {
				t.Errorf("%s: an init function", s.fset.Position(function.Pos()))
			}
			ast.Inspect(function.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					if n.Tok != token.DEFINE {
						for _, left := range n.Lhs {
							reportGlobal(t, s, left, globals[s.pkg])
						}
					}
				case *ast.IncDecStmt:
					reportGlobal(t, s, n.X, globals[s.pkg])
				case *ast.UnaryExpr:
					if n.Op == token.AND {
						if ident, ok := n.X.(*ast.Ident); ok {
							reportGlobal(t, s, ident, globals[s.pkg])
						}
					}
				case *ast.SelectorExpr:
					if of, ok := n.X.(*ast.Ident); ok && of.Name == "os" && slices.Contains([]string{"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv"}, n.Sel.Name) {
						t.Errorf("%s: reads the environment", s.fset.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
}

// reportGlobal reports that what is changed is a package variable, or lies in
// one. An identifier that the file declares elsewhere is a local one.
func reportGlobal(t *testing.T, s source, changed ast.Expr, globals []string) {
	t.Helper()
	for {
		switch inner := changed.(type) {
		case *ast.SelectorExpr:
			changed = inner.X
			continue
		case *ast.IndexExpr:
			changed = inner.X
			continue
		case *ast.StarExpr:
			changed = inner.X
			continue
		case *ast.ParenExpr:
			changed = inner.X
			continue
		}
		break
	}
	ident, ok := changed.(*ast.Ident)
	if !ok || !slices.Contains(globals, ident.Name) {
		return
	}
	if ident.Obj != nil {
		if _, declared := ident.Obj.Decl.(*ast.ValueSpec); !declared || !packageLevel(s.file, ident.Obj) {
			return
		}
	}
	t.Errorf("%s: the package variable %s changes", s.fset.Position(ident.Pos()), ident.Name)
}

func packageLevel(file *ast.File, object *ast.Object) bool {
	return file.Scope != nil && file.Scope.Objects[object.Name] == object
}
