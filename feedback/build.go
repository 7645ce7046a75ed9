package feedback

// Build gives the error of this account of a failure, with the causes to show
// through errors.Is and errors.As; they must be safe to show, see [Error]. It is
// for packages whose failures are not those of an inspection.
func Build(account Feedback, causes ...error) *Error {
	return &Error{Feedback: account, causes: causes}
}
