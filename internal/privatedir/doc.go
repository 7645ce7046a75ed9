// Package privatedir keeps files that belong to one user alone, in a folder that
// belongs to the same user alone. It opens a file without following links, checks
// kind, owner and mode of what it opened, and replaces a file as a whole and
// synced to the disk.
//
//	folder, err := privatedir.Make("/home/agent/.config/example", nil)
//	…
//	defer folder.Close()
//	draft, err := folder.Draft("state.json")
//	…
//	defer draft.Discard()
//	if err := draft.Fill(data); err != nil {
//		return err
//	}
//	return draft.Replace() // after an error the old file is still there
//
// [Watched] reads a file again only when it has changed.
//
// # Errors
//
// Every error is fs.ErrNotExist itself or a *fault.Error, whose text names paths
// and reasons and never has the content of a file. A *fault.Error matches the
// errno of the system's error, or a sentinel of this package.
//
// # Systems
//
// On Linux, macOS and the BSDs a [Folder] holds its folder open. Everything it
// does happens in that folder, even when another one has got its path. Kind, owner
// and mode of folders and files are checked on what was opened.
//
// Only Linux can exchange two names in one step ([Draft.ReplaceIf]) and reserve
// room on the disk in one step. On the other systems, ReplaceIf compares and
// renames in two steps, and [Draft.Reserve] writes the room full.
//
// On Windows a Folder holds its folder open too. What was opened through a link is
// refused, because its identity and times are not those of the name that was
// checked before. This package does not check who may open a file: that is up to
// the access list that the file inherits. The one of a user's profile lets in the
// user, administrators and the system. A folder needs no sync there.
//
// On other systems every function fails with errors.ErrUnsupported.
package privatedir
