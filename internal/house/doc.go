// Package house has no code: its tests check the whole module against the rules of
// how it is built. See imports_test.go, globals_test.go and readme_test.go.
package house
