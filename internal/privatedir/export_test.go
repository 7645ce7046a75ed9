package privatedir

// IsSettled reports whether the last reading counts until the file changes.
func (w *Watched[T]) IsSettled() bool { return w.last.Load().settled }
