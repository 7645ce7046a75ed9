package house_test

import (
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A message is an expression that is shown to people as a sentence.
type message struct {
	where string
	expr  ast.Expr
}

// messageNames are what fields and parameters are called that hold a message.
var messageNames = []string{"Message", "message", "Again", "what"}

// messages finds the messages of the importable packages: what is put into a
// field of such a name, what is passed for a parameter of such a name, and what
// a function gives whose name ends in Message. Those of package registry and
// below are the ends of sentences: they are the parameters called text.
func messages(t *testing.T) (sentences, texts []message) {
	t.Helper()
	type function struct{ position, text int }
	functions := map[string]function{} // by package and name
	structs := map[string][]string{}   // fields by package and name
	var files []source
	for _, s := range sources(t) {
		if s.isTest() || strings.HasPrefix(s.pkg, "examples") || strings.HasSuffix(s.pkg, "test") {
			continue
		}
		files = append(files, s)
		for _, declaration := range s.file.Decls {
			switch declaration := declaration.(type) {
			case *ast.FuncDecl:
				found, i := function{-1, -1}, 0
				if declaration.Name.Name == "log" { // a record's message is no sentence
					continue
				}
				for _, parameter := range declaration.Type.Params.List {
					for _, name := range parameter.Names {
						if typ, ok := parameter.Type.(*ast.Ident); ok && typ.Name == "string" {
							if slices.Contains(messageNames, name.Name) {
								found.position = i
							}
							if name.Name == "text" {
								found.text = i
							}
						}
						i++
					}
				}
				functions[s.pkg+"."+declaration.Name.Name] = found
			case *ast.GenDecl:
				for _, spec := range declaration.Specs {
					typ, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					if structure, ok := typ.Type.(*ast.StructType); ok {
						for _, field := range structure.Fields.List {
							for _, name := range field.Names {
								structs[s.pkg+"."+typ.Name.Name] = append(structs[s.pkg+"."+typ.Name.Name], name.Name)
							}
						}
					}
				}
			}
		}
	}
	for _, s := range files {
		below := s.pkg == "registry" || s.pkg == "internal/fault" || s.pkg == "internal/privatedir" || s.pkg == "internal/namedlock" || s.pkg == "host/journal"
		add := func(expr ast.Expr) {
			sentences = append(sentences, message{s.fset.Position(expr.Pos()).String(), expr})
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				if node.Body != nil && strings.HasSuffix(node.Name.Name, "Message") {
					ast.Inspect(node.Body, func(inner ast.Node) bool {
						if result, ok := inner.(*ast.ReturnStmt); ok && len(result.Results) > 0 {
							add(result.Results[0])
						}
						return true
					})
				}
			case *ast.CompositeLit:
				typ, _ := node.Type.(*ast.Ident)
				if array, ok := node.Type.(*ast.ArrayType); ok { // whose elements leave their type out
					element, _ := array.Elt.(*ast.Ident)
					for _, elt := range node.Elts {
						if literal, ok := elt.(*ast.CompositeLit); ok && element != nil && literal.Type == nil {
							positional(structs[s.pkg+"."+element.Name], literal, add)
						}
					}
				}
				if typ != nil {
					positional(structs[s.pkg+"."+typ.Name], node, add)
				}
			case *ast.KeyValueExpr:
				if key, ok := node.Key.(*ast.Ident); ok && slices.Contains(messageNames, key.Name) {
					if _, isFunction := node.Value.(*ast.FuncLit); !isFunction {
						add(node.Value)
					}
				}
			case *ast.AssignStmt:
				for i, left := range node.Lhs {
					if field, ok := left.(*ast.SelectorExpr); ok && field.Sel.Name == "Message" && len(node.Rhs) == len(node.Lhs) {
						add(node.Rhs[i])
					}
				}
			case *ast.CallExpr:
				called := ""
				switch callee := node.Fun.(type) {
				case *ast.Ident:
					called = s.pkg + "." + callee.Name
				case *ast.SelectorExpr:
					called = s.pkg + "." + callee.Sel.Name
					if of, ok := callee.X.(*ast.Ident); ok && of.Name == "inspection" {
						called = "internal/inspection." + callee.Sel.Name
					}
				}
				if f, ok := functions[called]; ok {
					if f.position >= 0 && f.position < len(node.Args) {
						add(node.Args[f.position])
					}
					if f.text >= 0 && f.text < len(node.Args) && below {
						texts = append(texts, message{s.fset.Position(node.Pos()).String(), node.Args[f.text]})
					}
				}
			}
			return true
		})
	}
	return sentences, texts
}

// positional gives the messages of a literal without names of fields.
func positional(fields []string, literal *ast.CompositeLit, add func(ast.Expr)) {
	if len(fields) != len(literal.Elts) {
		return
	}
	for i, value := range literal.Elts {
		if _, named := value.(*ast.KeyValueExpr); !named && slices.Contains(messageNames, fields[i]) {
			add(value)
		}
	}
}

// parts gives the operands of a concatenation.
func parts(expr ast.Expr) []ast.Expr {
	switch expr := expr.(type) {
	case *ast.ParenExpr:
		return parts(expr.X)
	case *ast.BinaryExpr:
		if expr.Op == token.ADD {
			return slices.Concat(parts(expr.X), parts(expr.Y))
		}
	}
	return []ast.Expr{expr}
}

// said gives the text of a literal.
func said(expr ast.Expr) (text string, ok bool) {
	literal, ok := expr.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}

// passedOn reports whether an expression is a message that is looked at where it
// is made.
func passedOn(expr ast.Expr) bool {
	switch expr := expr.(type) {
	case *ast.Ident:
		return slices.Contains(messageNames, expr.Name)
	case *ast.SelectorExpr:
		return slices.Contains(messageNames, expr.Sel.Name)
	case *ast.CallExpr:
		switch callee := expr.Fun.(type) {
		case *ast.Ident:
			return strings.HasSuffix(callee.Name, "Message")
		case *ast.SelectorExpr:
			return strings.HasSuffix(callee.Sel.Name, "Message")
		}
	}
	return false
}

var doubled = regexp.MustCompile(`\s{2}|[.][.]$`)

// A message is a whole sentence: a capital letter, a full stop, and single
// spaces between its words.
func TestMessagesAreSentences(t *testing.T) {
	t.Parallel()
	sentences, texts := messages(t)
	packages := map[string]bool{}
	for _, m := range sentences {
		operands := parts(m.expr)
		first, last := operands[0], operands[len(operands)-1]
		if text, ok := said(first); ok && text != "" {
			packages[strings.Split(strings.TrimPrefix(m.where, root+"/"), ":")[0]] = true
			begin := text[:1]
			names := strings.Contains(strings.Fields(text)[0], "_") || argumentNames[strings.Fields(text)[0]]
			if begin == " " || begin != strings.ToUpper(begin) && !names {
				t.Errorf("%s: it does not begin like a sentence: %q", m.where, text)
			}
		}
		text, ok := said(last)
		switch {
		case ok && text == "" && len(operands) == 1: // the table's message stands
		case ok && !strings.HasSuffix(text, "."):
			t.Errorf("%s: it has no full stop: %q", m.where, text)
		case !ok && len(operands) > 1 && !passedOn(last):
			t.Errorf("%s: nobody can see what it ends with", m.where)
		}
		for i, operand := range operands {
			text, _ := said(operand)
			if doubled.MatchString(text) || i > 0 && strings.HasPrefix(text, "  ") {
				t.Errorf("%s: spaces: %q", m.where, text)
			}
		}
	}
	for _, m := range texts {
		operands := parts(m.expr)
		if text, ok := said(operands[0]); ok && strings.HasPrefix(text, " ") {
			t.Errorf("%s: a space at the beginning of %q", m.where, text)
		}
		if text, ok := said(operands[len(operands)-1]); ok && (text == "" || strings.ContainsAny(text[len(text)-1:], " .")) {
			t.Errorf("%s: the end of %q is that of the whole sentence", m.where, text)
		}
		for _, operand := range operands {
			if text, _ := said(operand); doubled.MatchString(text) {
				t.Errorf("%s: spaces: %q", m.where, text)
			}
		}
	}
	if len(sentences) < 100 || len(texts) < 50 {
		t.Errorf("%d sentences and %d texts were found, in %v", len(sentences), len(texts), slices.Sorted(maps.Keys(packages)))
	}
}

// argumentNames are names in lower case that a message may begin with.
var argumentNames = map[string]bool{"workspace": true, "tool": true}
