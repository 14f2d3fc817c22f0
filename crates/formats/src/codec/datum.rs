//! Any value as an Avro datum of a schema, written as it is visited.
//!
//! apache-avro's own serde bridge has no way from unsigned counts to Avro's long, and a tree of values
//! between the two costs an allocation a field.

use super::estimate_error::EstimateError;
use super::wire::{put_bytes, put_long};
use apache_avro::Schema;
use apache_avro::schema::RecordSchema;
use serde::Serialize;
use serde::ser::{self, Impossible, SerializeSeq, SerializeStruct, Serializer};
use std::fmt::Display;

/// Appends a value as a datum of this schema: records field by field in the schema's order, unions of null
/// and one other type.
///
/// # Errors
/// [`EstimateError::Unrepresentable`] with the name of the innermost record field that does not fit, or
/// with `name`; `out` holds a part of the datum then.
pub(super) fn put_datum<T: Serialize>(
    value: &T,
    schema: &Schema,
    name: &str,
    out: &mut Vec<u8>,
) -> Result<(), EstimateError> {
    value
        .serialize(Datum { schema, name, out })
        .map_err(|Unfit(field)| EstimateError::Unrepresentable { field })
}

/// The field that does not fit its schema.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unfit(String);

impl ser::Error for Unfit {
    fn custom<T: Display>(what: T) -> Self {
        Self(what.to_string())
    }
}

/// Where a value of this schema is appended.
struct Datum<'s, 'o> {
    schema: &'s Schema,
    /// The record field it belongs to.
    name: &'s str,
    out: &'o mut Vec<u8>,
}

impl<'s> Datum<'s, '_> {
    fn unfit(&self) -> Unfit {
        Unfit(self.name.to_owned())
    }

    /// Writes the branch of a value that is there, where the schema has branches.
    fn present(mut self) -> Result<Self, Unfit> {
        if let Schema::Union(union) = self.schema {
            self.schema = union.variants().get(1).ok_or_else(|| self.unfit())?;
            put_long(self.out, 1);
        }
        Ok(self)
    }

    fn null(self) -> Result<(), Unfit> {
        let Schema::Union(_) = self.schema else { return Err(self.unfit()) };
        put_long(self.out, 0);
        Ok(())
    }

    fn integer(self, value: i128) -> Result<(), Unfit> {
        let datum = self.present()?;
        let long = match datum.schema {
            Schema::Double => return datum.serialize_f64(value as f64),
            Schema::Int => i32::try_from(value).ok().map(i64::from),
            Schema::Long | Schema::TimestampMillis => i64::try_from(value).ok(),
            _ => None,
        };
        put_long(datum.out, long.ok_or_else(|| datum.unfit())?);
        Ok(())
    }
}

/// The rest of a list, or of a record.
struct Items<'s, 'o> {
    schema: &'s Schema,
    name: &'s str,
    out: &'o mut Vec<u8>,
    /// Whether the list has any.
    any: bool,
}

struct DatumFields<'s, 'o> {
    record: &'s RecordSchema,
    /// Fields written.
    written: usize,
    out: &'o mut Vec<u8>,
}

impl SerializeSeq for Items<'_, '_> {
    type Ok = ();
    type Error = Unfit;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Unfit> {
        item.serialize(Datum { schema: self.schema, name: self.name, out: self.out })
    }

    fn end(self) -> Result<(), Unfit> {
        if self.any {
            put_long(self.out, 0);
        }
        Ok(())
    }
}

impl SerializeStruct for DatumFields<'_, '_> {
    type Ok = ();
    type Error = Unfit;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Unfit> {
        let field = self.record.fields.get(self.written).filter(|field| field.name == key);
        let field = field.ok_or_else(|| Unfit(key.to_owned()))?;
        self.written += 1;
        value.serialize(Datum { schema: &field.schema, name: &field.name, out: self.out })
    }

    /// A field that JSON leaves out has its default: null, false, 0, or an empty list, each of which is a zero.
    fn skip_field(&mut self, key: &'static str) -> Result<(), Unfit> {
        let field = self.record.fields.get(self.written).filter(|field| field.name == key);
        // What only a log that ends says has no field. One out of its place is missed at the end.
        let Some(field) = field else { return Ok(()) };
        if !matches!(field.schema, Schema::Union(_) | Schema::Array(_) | Schema::Boolean | Schema::Long) {
            return Err(Unfit(key.to_owned()));
        }
        self.written += 1;
        put_long(self.out, 0);
        Ok(())
    }

    fn end(self) -> Result<(), Unfit> {
        self.record.fields.get(self.written).map_or(Ok(()), |missing| Err(Unfit(missing.name.clone())))
    }
}

impl<'s, 'o> Serializer for Datum<'s, 'o> {
    type Ok = ();
    type Error = Unfit;
    type SerializeSeq = Items<'s, 'o>;
    type SerializeStruct = DatumFields<'s, 'o>;
    type SerializeTuple = Impossible<(), Unfit>;
    type SerializeTupleStruct = Impossible<(), Unfit>;
    type SerializeTupleVariant = Impossible<(), Unfit>;
    type SerializeMap = Impossible<(), Unfit>;
    type SerializeStructVariant = Impossible<(), Unfit>;

    fn serialize_bool(self, flag: bool) -> Result<(), Unfit> {
        let datum = self.present()?;
        let Schema::Boolean = datum.schema else { return Err(datum.unfit()) };
        datum.out.push(u8::from(flag));
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), Unfit> {
        self.integer(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Unfit> {
        self.integer(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Unfit> {
        self.integer(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Unfit> {
        self.integer(value.into())
    }

    fn serialize_u8(self, value: u8) -> Result<(), Unfit> {
        self.integer(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Unfit> {
        self.integer(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Unfit> {
        self.integer(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Unfit> {
        self.integer(value.into())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Unfit> {
        self.serialize_f64(value.into())
    }

    /// As in JSON, a number that is not finite is none.
    fn serialize_f64(self, value: f64) -> Result<(), Unfit> {
        if !value.is_finite() {
            return self.null();
        }
        let datum = self.present()?;
        let Schema::Double = datum.schema else { return Err(datum.unfit()) };
        datum.out.extend_from_slice(&value.to_le_bytes());
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Unfit> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result<(), Unfit> {
        let datum = self.present()?;
        match datum.schema {
            Schema::String => put_bytes(datum.out, text.as_bytes()),
            Schema::Enum(names) => {
                let index = names.symbols.iter().position(|symbol| symbol == text);
                put_long(datum.out, index.ok_or_else(|| datum.unfit())? as i64);
            }
            _ => return Err(datum.unfit()),
        }
        Ok(())
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<(), Unfit> {
        Err(self.unfit())
    }

    fn serialize_none(self) -> Result<(), Unfit> {
        self.null()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unfit> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Unfit> {
        self.null()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Unfit> {
        self.null()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Unfit> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Unfit> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Unfit> {
        Err(self.unfit())
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Items<'s, 'o>, Unfit> {
        let datum = self.present()?;
        let (Schema::Array(array), Some(length)) = (datum.schema, length) else { return Err(datum.unfit()) };
        // One block of all items; a block of none ends the list.
        put_long(datum.out, length as i64);
        Ok(Items { schema: &array.items, name: datum.name, out: datum.out, any: length > 0 })
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<DatumFields<'s, 'o>, Unfit> {
        let datum = self.present()?;
        let Schema::Record(record) = datum.schema else { return Err(datum.unfit()) };
        Ok(DatumFields { record, written: 0, out: datum.out })
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Unfit> {
        Err(self.unfit())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Unfit> {
        Err(self.unfit())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Unfit> {
        Err(self.unfit())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Unfit> {
        Err(self.unfit())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Unfit> {
        Err(self.unfit())
    }
}
