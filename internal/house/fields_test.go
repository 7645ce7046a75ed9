package house_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Every exported field of the importable packages says what it means: in a comment
// of its own, or in one above it that names it among the fields of a block.
func TestExportedFieldsHaveComments(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, s := range sources(t) {
		if s.isTest() || s.pkg == "." || strings.HasPrefix(s.pkg, "examples") || strings.Contains("/"+s.pkg+"/", "/internal/") {
			continue
		}
		for _, declared := range s.file.Decls {
			types, ok := declared.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range types.Specs {
				named, ok := spec.(*ast.TypeSpec)
				if !ok || !named.Name.IsExported() {
					continue
				}
				ast.Inspect(named.Type, func(n ast.Node) bool {
					fields, ok := n.(*ast.StructType)
					if !ok {
						return true
					}
					block, end := "", 0 // the last comment, and the line where what it stands above ends
					for _, field := range fields.Fields.List {
						own := field.Doc.Text() + field.Comment.Text()
						if own != "" || s.fset.Position(field.Pos()).Line != end+1 {
							block = own
						}
						end = s.fset.Position(field.End()).Line
						for _, name := range exportedNames(field) {
							seen++
							if own == "" && !slices.Contains(words(block), name) {
								t.Errorf("%s: field %s.%s of package %s has no comment", s.fset.Position(field.Pos()), named.Name, name, s.pkg)
							}
						}
					}
					return true
				})
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d exported fields were found", seen)
	}
}

// words are the words of a comment.
func words(comment string) []string {
	return strings.FieldsFunc(comment, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// exportedNames are the names of a field that other packages can use; that of an
// embedded one is its type's.
func exportedNames(field *ast.Field) (names []string) {
	for _, name := range field.Names {
		if name.IsExported() {
			names = append(names, name.Name)
		}
	}
	if len(field.Names) > 0 {
		return names
	}
	kind := field.Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	switch kind := kind.(type) {
	case *ast.Ident:
		if kind.IsExported() {
			names = append(names, kind.Name)
		}
	case *ast.SelectorExpr:
		names = append(names, kind.Sel.Name)
	}
	return names
}
