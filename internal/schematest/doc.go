// Package schematest has no code: its tests hold what this SDK marshals against
// the JSON Schemas that a framework infers from its types, with the library that
// those frameworks use. It is a module of its own, so that the SDK has no need of
// that library.
package schematest
