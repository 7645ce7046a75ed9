//go:build goexperiment.jsonv2 && !go1.27

package strictjson

import "encoding/json/v2"

// skip has a name of its own in the standard library's experiment of Go 1.26,
// which the json module stands for in such a build.
var skip = json.SkipFunc
