// Package privatedir keeps files that belong to one user alone, in a folder that
// does: they are opened without following links, never taken for what they are
// not, and replaced whole and synced.
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
//	return draft.Replace() // whole, or as it was
//
// [Watched] reads a file again only when it has changed.
//
// # Errors
//
// Every error but fs.ErrNotExist, which is given as it is, is a *fault.Error:
// its text names paths and reasons, and never has the content of a file. It
// matches the number of the system's error, or a sentinel of this package.
//
// # Systems
//
// On Linux, macOS and the BSDs a folder is held open: what is done in it happens
// in this very folder, also when another one gets its name. Kind, owner and mode
// of folders and files are checked on what was opened.
//
// Two names change places in one step on Linux alone ([Draft.ReplaceIf]), and
// room is set aside in one step there, and is written elsewhere.
//
// On Windows a folder is held open too, and what a link leads to is not taken for
// the file: its identity and times are those of what was seen before. Who may
// open a file is up to the access list that it inherits: that of a user's profile
// lets in the user, administrators and the system. Access lists are not looked
// at. A folder needs no sync there.
//
// On other systems every function fails with errors.ErrUnsupported.
package privatedir
