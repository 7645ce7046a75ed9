package house_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files and what is generated of CONTRIBUTING.md")

// golden compares got with a file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test ./internal/house -update writes it):\n%s", path, diff)
	}
}

// isImportable reports whether somebody else's program can import a package.
func isImportable(pkg string) bool {
	return !strings.HasPrefix(pkg, "examples") && !slices.Contains(strings.Split(pkg, "/"), "internal")
}

// The API is what testdata/api.txt says: a change of it shows in a diff, and
// stands in the change log.
func TestAPI(t *testing.T) {
	t.Parallel()
	api := map[string]map[string]string{} // by package, and by what it sorts by
	for _, s := range sources(t) {
		if s.isTest() || !isImportable(s.pkg) {
			continue
		}
		if api[s.pkg] == nil {
			api[s.pkg] = map[string]string{}
		}
		for _, declaration := range s.file.Decls {
			for name, text := range exported(s, declaration) {
				api[s.pkg][name] = text
			}
		}
	}
	var out strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(api)) {
		fmt.Fprintf(&out, "package %s/%s\n\n", module, pkg)
		for _, name := range slices.Sorted(maps.Keys(api[pkg])) {
			out.WriteString(api[pkg][name] + "\n")
		}
		out.WriteString("\n")
	}
	golden(t, filepath.Join("testdata", "api.txt"), strings.TrimSuffix(out.String(), "\n"))
}

// exported gives the exported names of a declaration: each with its declaration
// without comments, by what it sorts by.
func exported(s source, declaration ast.Decl) map[string]string {
	found := map[string]string{}
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			typ := receiverOf(d)
			if !ast.IsExported(typ) {
				return nil
			}
			name = typ + "." + name
		}
		if ast.IsExported(d.Name.Name) {
			found[name] = printed(s, &ast.FuncDecl{Recv: withoutNames(d.Recv), Name: d.Name, Type: d.Type})
		}
	case *ast.GenDecl:
		var last *ast.ValueSpec // of a list with iota
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				if spec.Type != nil || spec.Values != nil {
					last = spec
				}
				for i, name := range spec.Names {
					if !name.IsExported() {
						continue
					}
					shown := &ast.ValueSpec{Names: []*ast.Ident{name}, Type: spec.Type}
					if d.Tok == token.CONST {
						if shown.Type == nil && last != nil {
							shown.Type = last.Type
						}
						if i < len(spec.Values) {
							shown.Values = []ast.Expr{spec.Values[i]}
						}
					}
					found[name.Name] = printed(s, &ast.GenDecl{Tok: d.Tok, Specs: []ast.Spec{shown}})
				}
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					shown := *spec
					shown.Doc, shown.Comment = nil, nil
					shown.Type = withoutUnexported(spec.Type)
					found[spec.Name.Name] = printed(s, &ast.GenDecl{Tok: token.TYPE, Specs: []ast.Spec{&shown}})
				}
			}
		}
	}
	return found
}

// receiverOf gives the name of the type that a method belongs to; "" for a
// function.
func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	receiver := d.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	switch generic := receiver.(type) {
	case *ast.IndexExpr:
		receiver = generic.X
	case *ast.IndexListExpr:
		receiver = generic.X
	}
	return receiver.(*ast.Ident).Name
}

// withoutNames drops the names of a receiver, which are nobody's business.
func withoutNames(fields *ast.FieldList) *ast.FieldList {
	if fields == nil {
		return nil
	}
	return &ast.FieldList{List: []*ast.Field{{Type: fields.List[0].Type}}}
}

// withoutUnexported drops comments, and the fields and methods that are not
// exported.
func withoutUnexported(expr ast.Expr) ast.Expr {
	keep := func(fields *ast.FieldList) *ast.FieldList {
		kept := &ast.FieldList{}
		for _, field := range fields.List {
			shown := &ast.Field{Type: field.Type, Tag: field.Tag}
			for _, name := range field.Names {
				if name.IsExported() {
					shown.Names = append(shown.Names, ast.NewIdent(name.Name))
				}
			}
			if len(shown.Names) > 0 || len(field.Names) == 0 && isExportedType(field.Type) {
				kept.List = append(kept.List, shown)
			}
		}
		return kept
	}
	switch expr := expr.(type) {
	case *ast.StructType:
		return &ast.StructType{Fields: keep(expr.Fields)}
	case *ast.InterfaceType:
		return &ast.InterfaceType{Methods: keep(expr.Methods)}
	}
	return expr
}

// isExportedType is for what is embedded: a name, one of another package, a
// pointer to either, or a union of types.
func isExportedType(expr ast.Expr) bool {
	switch expr := expr.(type) {
	case *ast.StarExpr:
		return isExportedType(expr.X)
	case *ast.Ident:
		return expr.IsExported() || expr.Name == "error" || expr.Name == "comparable"
	}
	return true
}

func printed(s source, node any) string {
	var text bytes.Buffer
	if err := format.Node(&text, token.NewFileSet(), node); err != nil {
		return err.Error()
	}
	return text.String()
}
