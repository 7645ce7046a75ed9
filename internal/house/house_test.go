package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/bailinghub/bailinghub-go"
)

// source is one Go file of the module.
type source struct {
	// pkg is the folder, relative to the module: "host", "agentclient/hubtest".
	pkg, name string
	file      *ast.File
	fset      *token.FileSet
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// sources parses every Go file of the module; modules within it are their own.
func sources(t *testing.T) (all []source) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, noModule := os.Stat(filepath.Join(p, "go.mod"))
			if p != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || noModule == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(p) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, filepath.Dir(p))
		all = append(all, source{pkg: filepath.ToSlash(relative), name: path.Base(filepath.ToSlash(p)), file: file, fset: fset})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d files were found", len(all))
	}
	return all
}
