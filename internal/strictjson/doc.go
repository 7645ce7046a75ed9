// Package strictjson reads JSON as the contract has it: one object, valid
// UTF-8 without a byte order mark, member names in exactly their letter case
// and none twice at any level, inside members that nobody reads too.
//
// [Object] walks the members of a body in one pass; the value of a member is
// read with [Text], [String], [Integer], [Bool] or [Members], or not at all:
//
//	err := strictjson.Object(body, func(name []byte, d *jsontext.Decoder) (err error) {
//		switch string(name) {
//		case "error":
//			code, isString, err = strictjson.String(d)
//		}
//		return err
//	})
//
// [Unmarshal] fills a struct by the same rules.
//
// A lone surrogate escape in a string is legal and reads as U+FFFD, in a name
// too. More than 10,000 levels are refused. An error is a [Fault], which never
// quotes what was read. The caller limits the length of the body.
package strictjson
