// Package schematest has no code. Frameworks infer a JSON Schema from the types of
// this SDK; its tests check what the SDK marshals against those schemas, with the
// library that the frameworks use. It is a module of its own, so that the SDK does
// not depend on that library.
package schematest
