package privatedir

// HeldBy is what a lock file's text says of its holder.
func HeldBy(text string) string { return holderOf([]byte(text)) }

// IsSettled reports whether the last reading counts until the file changes.
func (w *Watched[T]) IsSettled() bool { return w.last.Load().settled }
