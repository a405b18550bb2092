//! Finds the number of a request in an encoded message, so that equal messages need not be made or read again.

/// Where a field of 4 bytes of the root table is; `None` if the message doesn't have it. `field` is its entry in the
/// table's list of fields, as generated code names it.
pub(crate) fn position(message: &[u8], field: u16) -> Option<usize> {
    let word = |at: usize| message.get(at..)?.first_chunk().copied();
    let short = |at: usize| message.get(at..)?.first_chunk().copied();
    let table = u32::from_le_bytes(word(0)?) as usize;
    let vtable = table.checked_add_signed(-(i32::from_le_bytes(word(table)?) as isize))?;
    let entry = usize::from(field);
    if usize::from(u16::from_le_bytes(short(vtable)?)) <= entry {
        return None;
    }
    let offset = u16::from_le_bytes(short(vtable.checked_add(entry)?)?);
    let at = table.checked_add(offset.into())?;
    (offset != 0 && message.len() >= at.checked_add(4)?).then_some(at)
}
