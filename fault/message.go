package fault

// Message returns the text of an error without its code.
func Message(err error) string {
	if f, ok := As(err); ok {
		return f.Message
	}
	return err.Error()
}
