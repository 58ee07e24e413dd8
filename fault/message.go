package fault

// Message returns the text of err, without the code and the place of a coded error. err must not be nil.
func Message(err error) string {
	if f, ok := As(err); ok {
		return f.Message
	}
	return err.Error()
}
